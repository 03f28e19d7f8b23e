"""A server that looks at what it can reach: python3 confined.py

Its tool `look` tries what its arguments name and tells what went well: files to `read`, folders to
`write` in, a port of this machine to `connect` to; and `processes`, how many it sees.
"""

import os
import socket

from stdio_server import serve


def attempt(action, *arguments):
    try:
        action(*arguments)
        return True
    except OSError:
        return False


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def write(folder):
    path = os.path.join(os.path.expanduser(folder), "written")
    with open(path, "a") as file:
        file.write("x")


def connect(port):
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def look(tried):
    return {
        "read": [path for path in tried["read"] if attempt(read, path)],
        "write": [folder for folder in tried["write"] if attempt(write, folder)],
        "connects": attempt(connect, tried["connect"]),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
        "parent": os.getppid(),
        "cwd": os.getcwd(),
        "variables": sorted(os.environ),
        "written": os.path.exists(os.path.expanduser("~/written")),
        "key_bytes": len(os.environ.get("API_KEY", "")),
    }


serve("confined", "look", look)
