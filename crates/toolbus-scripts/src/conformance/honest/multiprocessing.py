import multiprocessing as mp

def square(n):
    return n * n

fork = mp.get_context("fork")
with fork.Pool(3) as pool:
    print(sum(pool.map(square, range(100))))
queue = fork.Queue()
child = fork.Process(target=lambda: queue.put("from the child"))
child.start()
print(queue.get(timeout=9))
child.join()
print(child.exitcode)

# prints:
# 328350
# from the child
# 0
