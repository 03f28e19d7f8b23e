import numpy as np

random = np.random.default_rng(1)
a = random.normal(size=(300, 300))
b = random.normal(size=300)
x = np.linalg.solve(a, b)
print(np.allclose(a @ x, b), x.shape)
values, vectors = np.linalg.eigh(a @ a.T)
print(bool((values > -1e-6).all()), np.allclose(vectors.T @ vectors, np.eye(300)))
u, s, v = np.linalg.svd(a[:50])
print(np.allclose((u * s) @ v[:50], a[:50]), np.linalg.matrix_rank(a))

# prints:
# True (300,)
# True True
# True 300
