import concurrent.futures
import threading

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(lambda n: n * n, range(1000))))
lock, total = threading.Lock(), [0]

def add():
    for _ in range(1000):
        with lock:
            total[0] += 1

threads = [threading.Thread(target=add) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(total)

# prints:
# 332833500
# [8000]
