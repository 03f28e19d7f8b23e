import multiprocessing as mp
from multiprocessing import shared_memory

fork = mp.get_context("fork")
counter, lock = fork.Value("i", 0), fork.Lock()
block = shared_memory.SharedMemory(create=True, size=1 << 20)

def add(place):
    for _ in range(200):
        with lock:
            counter.value += 1
    block.buf[place] = place + 1

children = [fork.Process(target=add, args=(place,)) for place in range(4)]
for child in children:
    child.start()
for child in children:
    child.join()
print(counter.value, list(block.buf[:4]))
block.close()
block.unlink()

# prints:
# 800 [1, 2, 3, 4]
