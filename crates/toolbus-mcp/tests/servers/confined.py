"""A server that looks at what it can reach: python3 confined.py

Its tool `look` tries what its arguments name and tells what went well: files to `read`, folders to
`write` in, a port of this machine to `connect` to; and `processes`, how many it sees.
"""

import json
import os
import socket
import sys


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


def look(read_paths, write_folders, port):
    return {
        "read": [path for path in read_paths if attempt(read, path)],
        "write": [folder for folder in write_folders if attempt(write, folder)],
        "connects": attempt(connect, port),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
        "parent": os.getppid(),
        "cwd": os.getcwd(),
        "variables": sorted(os.environ),
        "written": os.path.exists(os.path.expanduser("~/written")),
        "key_bytes": len(os.environ.get("API_KEY", "")),
    }


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "confined", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        given = params["arguments"]
        seen = look(given["read"], given["write"], given["connect"])
        return {"content": [{"type": "text", "text": json.dumps(seen)}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "Method not found"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
