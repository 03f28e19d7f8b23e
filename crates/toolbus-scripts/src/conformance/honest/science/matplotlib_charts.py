import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

frame = pd.DataFrame({"sales": [3, 5, 2]}, index=["north", "south", "east"])
figure, axes = plt.subplots(2, 2, figsize=(6, 6), layout="constrained")
frame.plot.bar(ax=axes[0, 0])
axes[0, 1].hist(np.random.default_rng(0).normal(size=500), bins=20)
axes[1, 0].imshow(np.outer(np.arange(20), np.arange(20)), cmap="viridis")
axes[1, 1].pie(frame["sales"], labels=frame.index)
figure.savefig("output/charts.png")
figure.savefig("output/charts.svg")
print(len(figure.axes), plt.get_backend().lower())

# leaves: charts.png image/png
# leaves: charts.svg image/svg+xml
# prints:
# 4 agg
