import numpy as np
import pandas as pd

index = pd.date_range("2024-03-30", periods=72, freq="h", tz="Europe/Vienna")
series = pd.Series(np.arange(72), index=index)
print(series.resample("D").sum().tolist(), index[-1].isoformat())
print(series.rolling(24).mean().dropna().iloc[0], series["2024-03-31"].size)
print(series.tz_convert("UTC").index[0].hour, (index[1] - index[0]).total_seconds())

# prints:
# [276, 805, 1404, 71] 2024-04-02T00:00:00+02:00
# 11.5 23
# 23 3600.0
