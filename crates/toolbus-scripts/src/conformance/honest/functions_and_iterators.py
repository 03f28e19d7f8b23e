import bisect
import contextlib
import functools
import heapq
import itertools
import operator

@functools.lru_cache(maxsize=None)
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

@functools.singledispatch
def kind(value):
    return "something"

@kind.register
def _(value: int):
    return "number"

@contextlib.contextmanager
def tag(name):
    print("<%s>" % name)
    yield
    print("</%s>" % name)

print(fibonacci(90), kind(1), kind("x"), fibonacci.cache_info().misses)
print(list(heapq.merge([1, 4], [2, 3])), bisect.bisect([1, 2, 3], 2), functools.reduce(operator.mul, range(1, 6)))
print([(key, len(list(group))) for key, group in itertools.groupby("aaabcc")], list(itertools.pairwise("abc")))
with contextlib.ExitStack() as stack:
    stack.enter_context(tag("a"))
    stack.enter_context(tag("b"))

# prints:
# 2880067194370816120 number something 91
# [1, 2, 3, 4] 2 120
# [('a', 3), ('b', 1), ('c', 2)] [('a', 'b'), ('b', 'c')]
# <a>
# <b>
# </b>
# </a>
