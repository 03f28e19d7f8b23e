import csv
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import tempfile
import zipfile

folder = pathlib.Path(tempfile.mkdtemp())
(folder / "a.json").write_text(json.dumps({"a": [1, 2, 3]}))
with gzip.open(folder / "a.gz", "wt") as file:
    file.write("text" * 1000)
with zipfile.ZipFile(folder / "a.zip", "w") as file:
    file.write(folder / "a.json", "a.json")
rows = list(csv.reader(io.StringIO("a,b\n1,2\n")))
print(rows, len(gzip.open(folder / "a.gz").read()), zipfile.ZipFile(folder / "a.zip").namelist())
print(hashlib.sha256(b"x").hexdigest()[:8])
shutil.rmtree(folder)

# prints:
# [['a', 'b'], ['1', '2']] 4000 ['a.json']
# 2d711642
