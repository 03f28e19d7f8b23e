import collections
import gc

table = {n: str(n) for n in range(300_000)}
print(len(table), table[299_999])
del table
gc.collect()
blocks = [bytearray(1 << 20) for _ in range(100)]
print(sum(map(len, blocks)))
del blocks
words = collections.deque(maxlen=10)
for n in range(500_000):
    words.append(n)
print(words[0], "x".join(["ab"] * 3), len("y" * (50 << 20)))

# prints:
# 300000 299999
# 104857600
# 499990 abxabxab 52428800
