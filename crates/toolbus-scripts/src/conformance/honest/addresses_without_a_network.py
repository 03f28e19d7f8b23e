import email.message
import email.parser
import ipaddress
import socket
import urllib.parse

parts = urllib.parse.urlsplit("https://user@example.com:8443/a%20b?q=1&q=2#end")
print(parts.hostname, parts.port, urllib.parse.unquote(parts.path), urllib.parse.parse_qs(parts.query))
print(urllib.parse.urljoin("https://example.com/a/b", "../c"), urllib.parse.urlencode({"a": "ü b"}))
network = ipaddress.ip_network("10.1.0.0/22")
print(network.num_addresses, ipaddress.ip_address("10.1.3.255") in network, socket.inet_aton("1.2.3.4"))
message = email.message.EmailMessage()
message["To"], message["Subject"] = "a@example.com", "Grüße"
message.set_content("hello")
message.add_attachment(b"\0\1", maintype="application", subtype="octet-stream", filename="x.bin")
read = email.parser.BytesParser(policy=email.policy.default).parsebytes(bytes(message))
print(read["Subject"], [part.get_content_type() for part in read.iter_parts()], socket.gethostname())

# prints:
# example.com 8443 /a b {'q': ['1', '2']}
# https://example.com/c a=%C3%BC+b
# 1024 True b'\x01\x02\x03\x04'
# Grüße ['text/plain', 'application/octet-stream'] sandbox
