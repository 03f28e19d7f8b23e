"""A server over stdio that keeps every token it was started with: python3 remembering.py FOLDER

Its token is in its environment (TOKEN). Its tool `tell` says the beginning of the digest of the one
that it was started with, and all of them as they are; `die` ends it. It says its token on its
standard error, too.
"""

import hashlib
import os
import pathlib
import sys

from stdio_server import serve

TOKEN, KEPT = os.environ["TOKEN"], pathlib.Path(sys.argv[1]) / "tokens"
with KEPT.open("a") as kept:
    kept.write(TOKEN + "\n")
print("started with", TOKEN, file=sys.stderr, flush=True)


def tell(arguments):
    if arguments.get("die"):
        print("ending with", TOKEN, file=sys.stderr, flush=True)
        os._exit(3)
    return {
        "digest": hashlib.sha256(TOKEN.encode()).hexdigest()[:8],
        "tokens": KEPT.read_text().split(),
    }


serve("remembering", "tell", tell)
