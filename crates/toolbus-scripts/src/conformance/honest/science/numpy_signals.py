import numpy as np

time = np.linspace(0, 1, 1000, endpoint=False)
signal = np.sin(2 * np.pi * 50 * time) + 0.5 * np.sin(2 * np.pi * 120 * time)
spectrum = np.abs(np.fft.rfft(signal))
print(sorted(np.argsort(spectrum)[-2:].tolist()))
print(np.polyfit([0, 1, 2, 3], [1, 3, 7, 13], 2).round(6).tolist(), np.interp(2.5, [0, 5], [0, 10]))
smooth = np.convolve(signal, np.ones(10) / 10, mode="same")
print(smooth.shape, bool(np.abs(smooth).max() < np.abs(signal).max()))

# prints:
# [50, 120]
# [1.0, 1.0, 1.0] 5.0
# (1000,) True
