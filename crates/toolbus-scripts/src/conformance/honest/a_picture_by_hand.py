import struct
import zlib

width, height = 64, 64
rows = b"".join(b"\0" + bytes(value for x in range(width) for value in (x * 4, y * 4, 128)) for y in range(height))

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

header = struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)
picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
with open("output/gradient.png", "wb") as file:
    print(file.write(picture) > 200)

# leaves: gradient.png image/png
# prints:
# True
