import multiprocessing as mp

import numpy as np

def estimate(seed):
    points = np.random.default_rng(seed).random((100_000, 2))
    return float((np.hypot(*points.T) < 1).mean() * 4)

with mp.get_context("fork").Pool(3) as pool:
    estimates = pool.map(estimate, range(6))
print(abs(np.mean(estimates) - np.pi) < 0.02, len(set(estimates)))

# prints:
# True 6
