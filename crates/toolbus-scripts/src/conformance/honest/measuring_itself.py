import cProfile
import io
import pstats
import timeit
import tracemalloc

def work(n):
    return sum(helper(i) for i in range(n))

def helper(i):
    return i * i

profile = cProfile.Profile()
print(profile.runcall(work, 1000))
said = io.StringIO()
pstats.Stats(profile, stream=said).sort_stats("cumulative").print_stats("helper")
print("helper" in said.getvalue(), timeit.timeit("x = 1", number=1000) < 20)
tracemalloc.start()
kept = [bytes(1000) for _ in range(1000)]
now, most = tracemalloc.get_traced_memory()
print(now > 1_000_000, most >= now, len(kept))

# prints:
# 332833500
# True True
# True True 1000
