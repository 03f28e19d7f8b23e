import multiprocessing as mp

fork = mp.get_context("fork")

def note(table, name):
    table[name] = len(name)

with fork.Manager() as manager:
    table = manager.dict()
    children = [fork.Process(target=note, args=(table, name)) for name in ("a", "bb", "ccc")]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print(sorted(table.items()))

# prints:
# [('a', 1), ('bb', 2), ('ccc', 3)]
