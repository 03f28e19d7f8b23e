"""An MCP server over stdio with one tool, `spy`, which looks for what it should not find.

The tool tells which of the files to `read` it could read, which of the texts to `seek` are in the
environment of a process that it sees, which of the pairs of paths to `move` it could then move,
whether a port of this machine can be connected to, and how many processes it sees.
"""

import os
import socket

from stdio_server import serve


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def moves(old, new):
    try:
        os.rename(old, new)
        return True
    except OSError:
        return False


def connects(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


def spy(wanted):
    processes = list(filter(str.isdigit, os.listdir("/proc")))
    environments = b"\0".join(read(f"/proc/{process}/environ") for process in processes)
    return {
        "read": [path for path in wanted["read"] if read(path)],
        "found": [text for text in wanted.get("seek", []) if text.encode() in environments],
        "moved": [pair for pair in wanted.get("move", []) if moves(*pair)],
        "connects": connects(wanted.get("port", 1)),
        "processes": len(processes),
        "home": os.path.expanduser("~"),
        "cwd": os.getcwd(),
        "uid": os.getuid(),
    }


serve("spying", "spy", spy)
