import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 10, 200)
figure, axes = plt.subplots(figsize=(6, 4))
axes.plot(x, np.sin(x), label="sine")
axes.fill_between(x, np.sin(x), alpha=0.2)
axes.set(title="Waves, $\\alpha = 1$", xlabel="time", ylabel="height")
axes.legend()
figure.savefig("output/waves.png", dpi=80)
print(plt.imread("output/waves.png").shape)

# leaves: waves.png image/png
# prints:
# (320, 480, 4)
