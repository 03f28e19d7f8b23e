"""What the servers over stdio here share that have one tool, which answers with JSON."""

import json
import sys


def answer(name, tool, call, method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [{"name": tool, "inputSchema": {"type": "object"}}]}
    if method == "tools/call":
        seen = call(params.get("arguments", {}))
        return {"content": [{"type": "text", "text": json.dumps(seen)}]}
    return None


def serve(name, tool, call):
    """Serves until its input ends. `call` is given the arguments of each call."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(name, tool, call, message["method"], message.get("params", {}))
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "Method not found"}
        else:
            reply["result"] = result
        print(json.dumps(reply), flush=True)
