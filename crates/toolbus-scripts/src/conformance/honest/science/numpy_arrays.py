import numpy as np

a = np.arange(12, dtype=float).reshape(3, 4)
print(a.sum(axis=0).tolist(), a.mean(), a[a > 5].size, a.T.shape)
print(np.linalg.norm(a - a @ np.eye(4)), np.einsum("ij,ij->i", a, a).tolist())
print(np.where(a % 2 == 0, a, -a)[1].tolist(), np.broadcast_shapes((3, 1), (1, 4)))

# prints:
# [12.0, 15.0, 18.0, 21.0] 5.5 6 (4, 3)
# 0.0 [14.0, 126.0, 366.0]
# [4.0, -5.0, 6.0, -7.0] (3, 4)
