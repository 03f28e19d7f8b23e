"""A server whose tool takes its time: python3 patient.py

    work     sends `steps` notifications of progress, one every half second, and then answers;
             without end where `steps` is negative. Where `silent` is true it sends none.
"""

import json
import sys
import threading
import time

lock = threading.Lock()


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def work(id, params):
    arguments, token = params["arguments"], params.get("_meta", {}).get("progressToken")
    step = 0
    while step != arguments["steps"]:
        time.sleep(0.5)
        step += 1
        if not arguments.get("silent"):
            send({"method": "notifications/progress",
                  "params": {"progressToken": token, "progress": step}})
    send({"id": id, "result": {"content": [{"type": "text", "text": "worked"}]}})


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    method, id = message["method"], message["id"]
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "patient", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        threading.Thread(target=work, args=(id, message["params"]), daemon=True).start()
        continue
    else:
        send({"id": id, "error": {"code": -32601, "message": method}})
        continue
    send({"id": id, "result": result})
