import array
import binascii
import codecs
import io
import struct

packed = struct.pack(">HIf4s", 7, 1 << 20, 0.5, b"abcd")
print(packed.hex(), struct.unpack(">HIf4s", packed))
numbers = array.array("d", range(1000))
view = memoryview(numbers)[::100]
print(sum(view), numbers.itemsize, view.nbytes)
print(binascii.crc32(b"hello"), codecs.encode("hello", "rot13"), "ü€😀".encode("utf-16-le").hex())
print(b"caf\xe9".decode("latin-1"), b"\xff\xfeok".decode("utf-8", "replace"))
text = io.TextIOWrapper(io.BytesIO(b"one\r\ntwo\n"), newline=None)
print(text.read().split())
print(int.from_bytes((2**200).to_bytes(32, "little"), "little") == 2**200, (255).bit_count())

# prints:
# 0007001000003f00000061626364 (7, 1048576, 0.5, b'abcd')
# 4500.0 8 80
# 907060870 uryyb fc00ac203dd800de
# café ��ok
# ['one', 'two']
# True 8
