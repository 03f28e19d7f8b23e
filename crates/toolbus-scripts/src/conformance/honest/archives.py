import bz2
import io
import lzma
import shutil
import tarfile
import zlib

text = b"the same words over and over again; " * 2000
for module in (zlib, bz2, lzma):
    packed = module.compress(text)
    print(module.__name__, len(packed) < len(text) // 20, module.decompress(packed) == text)
with tarfile.open("all.tar.xz", "w:xz") as archive:
    for name in ("one", "two"):
        member = tarfile.TarInfo(name)
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
shutil.unpack_archive("all.tar.xz", "unpacked")
with tarfile.open("all.tar.xz") as archive:
    print(archive.getnames(), open("unpacked/two", "rb").read() == text)

# prints:
# zlib True True
# bz2 True True
# lzma True True
# ['one', 'two'] True
