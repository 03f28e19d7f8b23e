"""An MCP server over stdio whose tools write each start and each end to a ledger.

usage: ledger.py FOLDER

A call of `effect` or `held` adds the line `start CALL` to FOLDER/ledger, takes `ms` milliseconds, adds
the line `end CALL` and answers `CALL: done`. A line is on disk before anything else happens.
"""

import json
import os
import sys
import threading
import time

LEDGER = os.path.join(sys.argv[1], "ledger")
SCHEMA = {
    "type": "object",
    "properties": {"call": {"type": "string"}, "ms": {"type": "integer"}},
    "required": ["call"],
}
output = threading.Lock()


def send(message):
    with output:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()


def write(event, call):
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(ledger, f"{event} {call}\n".encode())
    os.fsync(ledger)
    os.close(ledger)


def effect(arguments):
    call = arguments["call"]
    write("start", call)
    time.sleep(arguments.get("ms", 0) / 1000)
    write("end", call)
    return {"content": [{"type": "text", "text": call + ": done"}]}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ledger", "version": "1"},
        }
    if method == "tools/list":
        named = {"inputSchema": SCHEMA, "description": "Leaves an effect."}
        return {"tools": [{"name": name} | named for name in ("effect", "held")]}
    if method == "tools/call":
        return effect(params.get("arguments") or {})
    return None


def serve(request):
    result = answer(request["method"], request.get("params", {}))
    head = {"jsonrpc": "2.0", "id": request["id"]}
    if result is None:
        send(head | {"error": {"code": -32601, "message": "no such method"}})
    else:
        send(head | {"result": result})


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        threading.Thread(target=serve, args=(request,), daemon=True).start()
# The end of the input also ends calls in flight.
os._exit(0)
