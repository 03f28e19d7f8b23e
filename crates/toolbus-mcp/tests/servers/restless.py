"""A server that reports changes of its tools: python3 restless.py FILE

Whenever its tools are listed, the time is added to FILE, in seconds, one a line. Its tools:

    change   adds a tool, and reports it
    again    reports a change where there is none
    storm    reports changes without end, and lists another tool each time
"""

import json
import sys
import threading
import time

LISTED = sys.argv[1]
lock = threading.Lock()
state = {"lists": 0, "extra": 0, "storm": False}


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def report():
    send({"method": "notifications/tools/list_changed"})


def storm():
    while True:
        report()
        time.sleep(0.02)


def tools():
    with open(LISTED, "a") as listed:
        listed.write(f"{time.monotonic()}\n")
    state["lists"] += 1
    names = ["echo", "change", "again", "storm"]
    names += [f"extra{number}" for number in range(state["extra"])]
    if state["storm"]:
        names.append(f"stormy{state['lists']}")
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}


def call(name):
    if name == "change":
        state["extra"] += 1
        report()
    elif name == "again":
        report()
    elif name == "storm":
        state["storm"] = True
        threading.Thread(target=storm, daemon=True).start()
    return {"content": [{"type": "text", "text": name}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    method, id = message["method"], message["id"]
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                  "serverInfo": {"name": "restless", "version": "1"}}
    elif method == "tools/list":
        result = tools()
    elif method == "tools/call":
        result = call(message["params"]["name"])
    else:
        send({"id": id, "error": {"code": -32601, "message": method}})
        continue
    send({"id": id, "result": result})
