"""A server that keeps count for its session, which is its process: python3 counting.py

Its one tool `count` tells the session, the number of the call in it, and when the call was made by
the server's clock, in nanoseconds.
"""

import json
import os
import sys
import time

SESSION = f"{os.getpid()}-{time.time_ns()}"
TOOL = {"name": "count", "inputSchema": {"type": "object"}}
count = 0

for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "counting", "version": "1"},
        }
    elif method == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif method == "tools/call":
        count += 1
        told = json.dumps({"session": SESSION, "n": count, "at": time.time_ns()})
        answer["result"] = {"content": [{"type": "text", "text": told}]}
    else:
        answer["error"] = {"code": -32601, "message": f"no {method}"}
    print(json.dumps(answer), flush=True)
