"""A small MCP server over standard input and output: one tool, `shout`."""

import json
import sys

TOOL = {
    "name": "shout",
    "description": "Says a text in capital letters.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to say"}},
        "required": ["text"],
    },
    "annotations": {"readOnlyHint": True},
}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shout", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call" and params.get("name") == "shout":
        text = params["arguments"]["text"].upper()
        return {"content": [{"type": "text", "text": text}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    result = answer(request["method"], request.get("params") or {})
    if result is None:
        reply["error"] = {"code": -32601, "message": "not found"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
