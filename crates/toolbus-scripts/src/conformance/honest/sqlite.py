import sqlite3

for place in (":memory:", "data.db"):
    with sqlite3.connect(place) as base:
        base.execute("create table t (n integer, s text)")
        base.executemany("insert into t values (?, ?)", [(n, str(n)) for n in range(1000)])
        print(base.execute("select sum(n), max(s) from t").fetchone())

# prints:
# (499500, '999')
# (499500, '999')
