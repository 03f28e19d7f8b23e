"""A server that knows how often it was called: python3 counting.py

Its one tool `count` tells the session, which is the process, the number of the call in it, and who
has called in it: the argument `who` of every call. With `until`, the call lasts until there is a
file of that name.
"""

import json
import os
import sys
import time

SESSION = f"{os.getpid()}-{time.time_ns()}"
TOOL = {
    "name": "count",
    "inputSchema": {
        "type": "object",
        "properties": {"who": {"type": "string"}, "until": {"type": "string"}},
    },
}
calls = []


def count(arguments):
    while not os.path.exists(arguments.get("until", "/")):
        time.sleep(0.01)
    calls.append(arguments.get("who", ""))
    told = {"session": SESSION, "n": len(calls), "callers": sorted(set(calls))}
    return {"content": [{"type": "text", "text": json.dumps(told)}]}


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    if "id" not in message:
        continue
    if method == "initialize":
        answer = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "counting", "version": "1"},
        }
    elif method == "tools/list":
        answer = {"tools": [TOOL]}
    elif method == "tools/call":
        answer = count(params.get("arguments", {}))
    elif method == "ping":
        answer = {}
    else:
        error = {"code": -32601, "message": f"no {method}"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
