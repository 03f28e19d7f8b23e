"""An MCP server over stdio that asks a question for a call that has ended.

usage: late.py FOLDER

It speaks 2025-11-25. What happens leaves a line in FOLDER/marks. Tools:
  ask     never answers, and goes on when it is given up
  work    runs while `ask` puts its question, and is answered when that is
"""

import json
import os
import sys

FOLDER = sys.argv[1]
FORM = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
working = None


def mark(text):
    with open(os.path.join(FOLDER, "marks"), "a") as marks:
        marks.write(text + "\n")


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def answer(message):
    global working
    method, params = message["method"], message.get("params", {})
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "late", "version": "1"},
        }
    elif method == "tools/list":
        schema = {"type": "object"}
        result = {"tools": [{"name": n, "inputSchema": schema} for n in ("ask", "work")]}
    elif method == "tools/call" and params["name"] == "ask":
        mark("asked")
        return
    elif method == "tools/call":
        working = message["id"]
        form = {"message": "Delete it?", "requestedSchema": FORM}
        send({"id": "late", "method": "elicitation/create", "params": form})
        return
    elif method != "ping":
        send({"id": message["id"], "error": {"code": -32601, "message": "no such method"}})
        return
    send({"id": message["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        result = message.get("result", {})
        mark("answered " + result.get("action", "with an error"))
        content = [{"type": "text", "text": "done"}]
        send({"id": working, "result": {"content": content}})
    elif "id" in message:
        answer(message)
    elif message["method"] == "notifications/cancelled":
        mark("cancelled")
