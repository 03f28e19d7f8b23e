import collections
import csv
import io

given = "region,amount\nnorth,10\nsouth,5\nnorth,7\n\"east, far\",1\n"
totals = collections.Counter()
for row in csv.DictReader(io.StringIO(given)):
    totals[row["region"]] += int(row["amount"])
with open("output/totals.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, ["region", "total"])
    writer.writeheader()
    writer.writerows({"region": region, "total": total} for region, total in sorted(totals.items()))
print(open("output/totals.csv").read().splitlines())

# leaves: totals.csv text/csv
# prints:
# ['region,total', '"east, far",1', 'north,17', 'south,5']
