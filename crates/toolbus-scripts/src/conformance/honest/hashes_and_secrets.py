import base64
import hashlib
import hmac
import secrets
import uuid

for name in ("md5", "sha1", "sha3_256", "blake2b"):
    print(name, hashlib.new(name, b"toolbus").hexdigest()[:16])
key = hashlib.scrypt(b"password", salt=b"salt", n=1024, r=8, p=1, dklen=16)
print(key.hex(), hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1000)[:4].hex())
print(hmac.compare_digest(hmac.digest(b"k", b"m", "sha256"), hmac.new(b"k", b"m", "sha256").digest()))
print(len(secrets.token_urlsafe(32)) > 40, len({secrets.randbelow(1 << 60) for _ in range(100)}))
print(base64.b85encode(b"hello").decode(), base64.urlsafe_b64encode(b"\xff\xfe"), uuid.uuid5(uuid.NAMESPACE_DNS, "example.com"))

# prints:
# md5 34918aba65e5a978
# sha1 f11fb5bf6f8ad537
# sha3_256 7c00f08cf32f5a1f
# blake2b 5b7e817d97e18ee4
# 16dbc8906763c7f048977a68f9d305f7 632c2812
# True
# True 100
# Xk~0{Zv b'__4=' cfbff0d1-9375-5685-968c-48ce8b15ae17
