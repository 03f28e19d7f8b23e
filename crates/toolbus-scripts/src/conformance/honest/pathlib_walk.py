import pathlib

root = pathlib.Path("tree")
for place in ("a/one.txt", "a/b/two.txt", "c/three.md"):
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(place)
print(sorted(str(path.relative_to(root)) for path in root.rglob("*.txt")))
(root / "c/three.md").rename(root / "c/three.txt")
(root / "link").symlink_to("a/one.txt")
print((root / "link").read_text(), (root / "link").is_symlink(), (root / "link").resolve().name)
print(len(list(root.rglob("*.txt"))), (root / "a/one.txt").stat().st_size)
(root / "a/one.txt").unlink()
print((root / "link").exists(), pathlib.PurePosixPath("/a/b.tar.gz").suffixes)

# prints:
# ['a/b/two.txt', 'a/one.txt']
# a/one.txt True one.txt
# 3 9
# False ['.tar', '.gz']
