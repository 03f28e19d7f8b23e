import copy
import dbm.dumb
import gc
import pickle
import shelve
import weakref

class Node:
    def __init__(self, name, next=None):
        self.name, self.next = name, next

ring = Node("a")
ring.next = Node("b", ring)
again = pickle.loads(pickle.dumps(ring))
print(again.next.next is again, copy.deepcopy(ring).next.next.name)
with shelve.Shelf(dbm.dumb.open("shelf", "c")) as shelf:
    shelf["one"] = {"a": [1, 2]}
with shelve.Shelf(dbm.dumb.open("shelf", "r")) as shelf:
    print(dict(shelf))
reference = weakref.ref(ring.next)
print(reference().name)
ring.next = None
gc.collect()
print(reference())

# prints:
# True a
# {'one': {'a': [1, 2]}}
# b
# None
