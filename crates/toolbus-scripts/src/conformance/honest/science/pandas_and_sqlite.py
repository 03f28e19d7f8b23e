import sqlite3

import pandas as pd

base = sqlite3.connect("data.db")
frame = pd.DataFrame({"name": ["a", "b", "a", None], "value": [1.5, 2.0, None, 4.0]})
frame.to_sql("records", base, index=False)
back = pd.read_sql("select name, count(*) as rows, total(value) as value from records group by name", base)
print(back.fillna("none").to_dict("records"))
print(frame.isna().sum().to_dict(), frame["value"].interpolate().tolist())
print(frame.to_json(orient="records"))

# prints:
# [{'name': 'none', 'rows': 1, 'value': 4.0}, {'name': 'a', 'rows': 2, 'value': 1.5}, {'name': 'b', 'rows': 1, 'value': 2.0}]
# {'name': 1, 'value': 1} [1.5, 2.0, 3.0, 4.0]
# [{"name":"a","value":1.5},{"name":"b","value":2.0},{"name":"a","value":null},{"name":null,"value":4.0}]
