import json

orders = [{"id": n, "city": city, "total": n * 1.5} for n, city in enumerate(["Wien", "Köln", "Wien"], 1)]
cities = {}
for order in orders:
    cities.setdefault(order["city"], []).append(order["total"])
report = {city: {"orders": len(totals), "total": sum(totals)} for city, totals in sorted(cities.items())}
with open("report.json", "w") as file:
    json.dump(report, file, ensure_ascii=False, indent=1)
print(open("report.json").read())
assert json.loads(json.dumps(orders)) == orders
try:
    json.loads('{"a": 1,}')
except json.JSONDecodeError as error:
    print("broken at", error.pos > 0)

# prints:
# {
#  "Köln": {
#   "orders": 1,
#   "total": 3.0
#  },
#  "Wien": {
#   "orders": 2,
#   "total": 6.0
#  }
# }
# broken at True
