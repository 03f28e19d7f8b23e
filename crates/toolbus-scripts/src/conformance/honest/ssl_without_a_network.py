import ssl

context = ssl.create_default_context()
print(context.verify_mode.name, context.check_hostname, len(ssl.RAND_bytes(32)))
incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
client = context.wrap_bio(incoming, outgoing, server_hostname="example.com")
try:
    client.do_handshake()
except ssl.SSLWantReadError:
    print("hello of", len(outgoing.read()) > 100)

# prints:
# CERT_REQUIRED True 32
# hello of True
