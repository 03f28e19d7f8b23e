import io

import pandas as pd

orders = pd.read_csv(io.StringIO("day,city,amount\n2024-01-01,Wien,10\n2024-01-01,Graz,5\n2024-01-02,Wien,7\n"),
                     parse_dates=["day"])
print(orders.groupby("city")["amount"].agg(["sum", "count"]).to_dict())
print(orders.pivot_table(index="day", columns="city", values="amount", fill_value=0).to_numpy().tolist())
cities = pd.DataFrame({"city": ["Wien", "Graz"], "people": [2_000_000, 300_000]})
merged = orders.merge(cities, on="city", how="left")
print(merged.shape, int(merged["people"].sum()), merged.sort_values("amount")["city"].tolist())
merged.to_csv("output/merged.csv", index=False)

# leaves: merged.csv text/csv
# prints:
# {'sum': {'Graz': 5, 'Wien': 17}, 'count': {'Graz': 1, 'Wien': 2}}
# [[5.0, 10.0], [0.0, 7.0]]
# (3, 4) 4300000 ['Graz', 'Wien', 'Wien']
