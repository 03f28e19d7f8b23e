import os
import tempfile

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x")
    open(path, "w").close()
    print(os.listdir(folder))
print(os.path.exists(folder))
with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("kept while open")
    file.flush()
    print(open(file.name).read(), os.stat(file.name).st_mode & 0o777 == 0o600)
with tempfile.SpooledTemporaryFile(max_size=10) as file:
    file.write(b"y" * 1000)
    file.seek(0)
    print(len(file.read()))
with tempfile.TemporaryFile() as file:
    file.write(os.urandom(1 << 20))
    print(file.tell())
number, path = tempfile.mkstemp()
os.close(number)
os.unlink(path)

# prints:
# ['x']
# False
# kept while open True
# 1000
# 1048576
