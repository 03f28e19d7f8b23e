import sys
import traceback
import warnings

def depth(n):
    return depth(n + 1)

for action in (lambda: 1 / 0, lambda: {}["a"], lambda: int("x"), lambda: open("/nowhere/file"), lambda: depth(0), lambda: input()):
    try:
        action()
    except Exception as error:
        print(type(error).__name__)
try:
    raise ExceptionGroup("several", [ValueError(1), OSError(2, "no")])
except* ValueError as group:
    print("values", len(group.exceptions))
except* OSError as group:
    print("system", len(group.exceptions))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old", DeprecationWarning)
print(caught[0].category.__name__)
try:
    raise KeyError("a") from ValueError("b")
except KeyError:
    print(traceback.format_exc().count("Traceback"), sys.exc_info()[0].__name__)
error = ValueError("x")
error.add_note("a note")
print(error.__notes__)

# prints:
# ZeroDivisionError
# KeyError
# ValueError
# FileNotFoundError
# RecursionError
# EOFError
# values 1
# system 1
# DeprecationWarning
# 1 KeyError
# ['a note']
