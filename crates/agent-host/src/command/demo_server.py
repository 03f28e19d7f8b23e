"""A small MCP server over standard input and output, for the demo: `today` tells the date, and
`send_letter`, which sends nothing, stands for what a person wants to be asked about."""

import datetime
import json
import sys

TOOLS = [
    {
        "name": "today",
        "description": "Tells today's date.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "send_letter",
        "description": "Sends a letter.",
        "inputSchema": {
            "type": "object",
            "properties": {"to": {"type": "string"}},
            "required": ["to"],
        },
    },
]


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "demo", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "today":
        text = datetime.date.today().strftime("Today is %A, %d %B %Y.")
        return {"content": [{"type": "text", "text": text}]}
    if method == "tools/call" and params.get("name") == "send_letter":
        text = f"The letter to {params['arguments']['to']} is on its way."
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
