import sqlite3
import threading

with sqlite3.connect("orders.db") as base:
    print(base.execute("pragma journal_mode = wal").fetchone()[0])
    base.execute("create table orders (customer text, cents integer)")

def order(customer):
    with sqlite3.connect("orders.db", timeout=20) as base:
        for cents in range(100):
            base.execute("insert into orders values (?, ?)", (customer, cents))
    base.close()

threads = [threading.Thread(target=order, args=(name,)) for name in ("ada", "bob", "cyd")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
base = sqlite3.connect("orders.db")
base.row_factory = sqlite3.Row
rows = base.execute("select customer, sum(cents) as total, rank() over (order by customer) as place "
                    "from orders group by customer")
print([(row["customer"], row["total"], row["place"]) for row in rows])
base.execute("vacuum")

# prints:
# wal
# [('ada', 4950, 1), ('bob', 4950, 2), ('cyd', 4950, 3)]
