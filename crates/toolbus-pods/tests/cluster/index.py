# A package index for tests, in a pod: a few packages, good and bad, made here, and the wheels that are
# in the image. It also opens the volume of sets to the group and tells what is on it.
import collections
import hashlib
import http.server
import io
import json
import os
import re
import shutil
import socket
import sys
import tarfile
import time
import zipfile

VOLUME = "/volume"
WHEELS = "/wheels"
ADDRESS = socket.gethostbyname(socket.gethostname()) + ":8080"
asked = collections.Counter()
os.chmod(VOLUME, 0o777)


def wheel(name, files, requires=""):
    package = name.replace("-", "_")
    info = package + "-1.0.dist-info"
    files = dict(files)
    files[info + "/METADATA"] = "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name + requires
    files[info + "/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[info + "/RECORD"] = "".join(path + ",,\n" for path in [*files, info + "/RECORD"])
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return package + "-1.0-py3-none-any.whl", body.getvalue()


def source_distribution(name):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        setup = b"open('/packages/built', 'w')\nfrom setuptools import setup\nsetup(name='x', version='1.0')"
        # One that needs nothing to be installed before it is built.
        project = b"[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
        backend = b"raise SystemExit('the source was built')\n"
        for path, content in ("setup.py", setup), ("pyproject.toml", project), ("backend.py", backend):
            member = tarfile.TarInfo(name + "-1.0/" + path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return name + "-1.0.tar.gz", body.getvalue()


packages = dict([
    ("toolbus-good", wheel("toolbus-good", {"toolbus_good.py": "value = 'from a wheel'\n"})),
    ("toolbus-other", wheel("toolbus-other", {"toolbus_other.py": "value = 'another'\n"})),
    ("toolbus-sdist", source_distribution("toolbus-sdist")),
    ("toolbus-lure", wheel("toolbus-lure", {"lure.py": ""}, "Requires-Dist: toolbus-sdist @ http://%s/files/%s\n"
                           % (ADDRESS, "toolbus-sdist-1.0.tar.gz"))),
    ("toolbus-hostile", wheel("toolbus-hostile", {"../../../packages/escaped": "x", "h.py": ""})),
    ("toolbus-huge", wheel("toolbus-huge", {"huge.bin": b"\0" * (128 << 20)})),
])
for file in os.listdir(WHEELS):
    with open(os.path.join(WHEELS, file), "rb") as wheel:
        name = re.sub("[-_.]+", "-", file.split("-")[0]).lower()
        packages[name] = file, wheel.read()


class Index(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts[0] == "asked":
            self.answer(json.dumps(asked))
        elif parts[0] == "volume":
            self.answer(json.dumps(sorted(os.listdir(VOLUME))))
        elif parts[0] == "age":
            old = time.time() - 7200
            for name in os.listdir(VOLUME):
                os.utime(os.path.join(VOLUME, name), (old, old))
            self.answer("aged")
        elif parts[0] == "empty":
            for name in os.listdir(VOLUME):
                shutil.rmtree(os.path.join(VOLUME, name))
            self.answer("emptied")
        elif parts[0] == "files":
            asked[parts[1]] += 1
            self.answer(next(body for name, body in packages.values() if name == parts[1]))
        elif parts[-1] == "toolbus-busy":
            self.send_error(429)
        elif parts[-1] == "toolbus-slow":
            time.sleep(600)
        elif parts[-1] in packages:
            name, body = packages[parts[-1]]
            digest = hashlib.sha256(body).hexdigest()
            self.answer("<a href='/files/%s#sha256=%s'>%s</a>" % (name, digest, name), "text/html")
        else:
            self.send_error(404)

    def answer(self, body, kind="application/octet-stream"):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("", 8080), Index).serve_forever()
