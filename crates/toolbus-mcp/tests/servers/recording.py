"""A server that writes down what it is asked: python3 recording.py FILE

Its one tool `write`, its prompt, its resource and the rest answer anything. What a client asks by
itself is not written down: what there is, and the first page of resources.
"""

import json
import pathlib
import sys

RECORD = sys.argv[1]
TITLE = "Recorder of " + pathlib.Path(RECORD).stem
OF_CLIENT = ("initialize", "server/discover", "tools/list", "prompts/list", "resources/list")
OF_CLIENT += ("resources/templates/list", "resources/unsubscribe")
OFFERS = {"prompts": {}, "resources": {"subscribe": True}, "completions": {}, "tools": {}}
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": OFFERS,
        "serverInfo": {"name": "recording", "title": TITLE, "version": "1"},
    },
    "tools/list": {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "written"}]},
    "prompts/list": {"prompts": [{"name": "greet"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]},
    "resources/list": {"resources": [{"uri": "a://1", "name": "one"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "resources/read": {"contents": [{"uri": "a://1", "text": "one"}]},
    "resources/subscribe": {},
    "resources/unsubscribe": {},
    "completion/complete": {"completion": {"values": ["x"]}},
}


def detail(params):
    names = ("name", "uri", "arguments", "cursor")
    return " ".join(json.dumps(params[name]) for name in names if name in params)


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method is None or "id" not in message:
        continue
    params = message.get("params", {})
    if method not in OF_CLIENT or "cursor" in params:
        with open(RECORD, "a") as record:
            record.write(f"{method} {detail(params)}".strip() + "\n")
    answer = {"error": {"code": -32601, "message": method}}
    if method in ANSWERS:
        answer = {"result": ANSWERS[method]}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
    sys.stdout.flush()
