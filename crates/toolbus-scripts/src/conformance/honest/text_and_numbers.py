import collections
import datetime
import decimal
import fractions
import math
import random
import re
import statistics
import uuid

random.seed(1)
print(statistics.fmean([1, 2, 3]), decimal.Decimal("0.1") * 3, fractions.Fraction(1, 3) + 1)
print(datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc).isoformat(), math.comb(50, 25))
print(re.findall(r"\w+", "a b"), collections.Counter("aab").most_common(1), len(str(uuid.uuid4())))

# prints:
# 2.0 0.3 4/3
# 2024-02-29T00:00:00+00:00 126410606437752
# ['a', 'b'] [('a', 2)] 36
