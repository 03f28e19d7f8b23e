import ctypes
import ctypes.util
import resource

libc = ctypes.CDLL(None)
print(libc.abs(-5), libc.strlen(b"four"))
libc.atof.restype = ctypes.c_double
print(libc.atof(b"2.5"))
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(3, 1, 2, 5, 4)
libc.qsort(numbers, 5, ctypes.sizeof(ctypes.c_int), compare(lambda one, other: one[0] - other[0]))
print(list(numbers))

class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int16), ("b", ctypes.c_int64)]

print(ctypes.sizeof(Pair), Pair(1, 2).b, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0)

# prints:
# 5 4
# 2.5
# [1, 2, 3, 4, 5]
# 16 2 True
