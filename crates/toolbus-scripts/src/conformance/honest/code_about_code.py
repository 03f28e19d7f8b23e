import ast
import importlib
import inspect
import pathlib
import runpy
import sys
import zipfile

tree = ast.parse("def f(x):\n    return x * factor")
names = sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)})
space = {"factor": 3}
exec(compile(tree, "made", "exec"), space)
print(names, space["f"](14), eval("1 + 2"), inspect.signature(space["f"]))
pathlib.Path("mine.py").write_text("value = 41\nif __name__ == '__main__':\n    value += 1\n")
importlib.invalidate_caches()
print(importlib.import_module("mine").value, runpy.run_path("mine.py", run_name="__main__")["value"])
with zipfile.ZipFile("library.zip", "w") as archive:
    archive.writestr("packed/__init__.py", "from . import inner\n")
    archive.writestr("packed/inner.py", "name = __name__\n")
sys.path.insert(0, "library.zip")
import packed
print(packed.inner.name, packed.__file__)

# prints:
# ['factor', 'x'] 42 3 (x)
# 41 42
# packed.inner library.zip/packed/__init__.py
