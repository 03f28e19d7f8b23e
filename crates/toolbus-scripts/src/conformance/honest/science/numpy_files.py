import numpy as np

table = np.random.default_rng(3).integers(0, 100, size=(500, 4))
np.save("table.npy", table)
np.savez_compressed("output/tables.npz", one=table, two=table.T)
np.savetxt("table.txt", table, fmt="%d")
mapped = np.load("table.npy", mmap_mode="r")
packed = np.load("output/tables.npz")
print((mapped == table).all(), (packed["two"].T == table).all(), (np.loadtxt("table.txt") == table).all())

# leaves: tables.npz application/octet-stream
# prints:
# True True True
