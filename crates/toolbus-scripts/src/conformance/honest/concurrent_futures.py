import concurrent.futures as futures
import os

def work(n):
    return n, os.getpid()

with futures.ProcessPoolExecutor(3) as pool:
    done = [future.result() for future in futures.as_completed([pool.submit(work, n) for n in range(30)])]
print(sum(n for n, _ in done), os.getpid() not in {process for _, process in done})
with futures.ThreadPoolExecutor(4) as pool:
    failing = pool.submit(int, "no number")
    print(type(failing.exception()).__name__, list(pool.map(str.upper, "abc")))

# prints:
# 435 True
# ValueError ['A', 'B', 'C']
