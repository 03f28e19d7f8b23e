import math
import multiprocessing as mp

with mp.get_context("spawn").Pool(2) as pool:
    print(sum(pool.map(math.factorial, range(10))))

# prints:
# 409114
