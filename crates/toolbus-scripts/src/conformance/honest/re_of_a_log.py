import collections
import re

log = "\n".join(
    f'10.0.0.{n % 3} - [{n:02}/Jan/2024] "GET /page/{n % 4}?q={n} HTTP/1.1" {200 if n % 5 else 404}' for n in range(40)
)
line = re.compile(r'^(?P<host>[\d.]+) - \[(?P<day>[^]]+)\] "(?P<method>[A-Z]+) (?P<path>/[^? ]*)[^"]*" (?P<code>\d{3})$', re.M)
found = list(line.finditer(log))
print(len(found), collections.Counter(match["code"] for match in found).most_common())
print(sorted({match["path"] for match in found}), re.sub(r"(\d+)", lambda n: str(int(n[0]) * 2), "a1b22"))
print(re.split(r"[,;]\s*", "a, b;c"), bool(re.fullmatch(r"(?i)straße", "STRAßE")))

# prints:
# 40 [('200', 32), ('404', 8)]
# ['/page/0', '/page/1', '/page/2', '/page/3'] a2b44
# ['a', 'b', 'c'] True
