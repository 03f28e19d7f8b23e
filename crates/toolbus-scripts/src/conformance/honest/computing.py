import cmath
import math
import random

def primes(limit):
    sieve = bytearray([1]) * limit
    for n in range(2, int(limit**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = bytes(len(range(n * n, limit, n)))
    return sum(sieve[2:])

def multiply(one, other):
    return [[sum(a * b for a, b in zip(row, column)) for column in zip(*other)] for row in one]

def solve(size):
    random.seed(7)
    tour = list(range(size))
    places = [complex(random.random(), random.random()) for _ in tour]
    length = lambda: sum(abs(places[a] - places[b]) for a, b in zip(tour, tour[1:] + tour[:1]))
    before = length()
    for _ in range(2000):
        a, b = sorted(random.sample(range(size), 2))
        old, tour[a:b] = length(), tour[a:b][::-1]
        if length() > old:
            tour[a:b] = tour[a:b][::-1]
    return length() < before

print(primes(200_000), multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]), solve(20))
print(pow(3, 10**9, 1_000_007), len(str(math.factorial(1000))), math.isqrt(10**40), abs(cmath.exp(1j * math.pi) + 1) < 1e-12)

# prints:
# 17984 [[19, 22], [43, 50]] True
# 475422 2568 100000000000000000000 True
