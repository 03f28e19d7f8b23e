"""An MCP server that repeats its credentials wherever a server may say anything: python3 leaking.py

They are in its environment (API_TOKEN) and among its arguments (--key VALUE). Its mode (LOG_LEVEL)
is no credential, and it says that too.
"""

import base64
import json
import os
import sys

TOKEN, MODE = os.environ["API_TOKEN"], os.environ["LOG_LEVEL"]
KEY = sys.argv[sys.argv.index("--key") + 1]
BOTH = f"{TOKEN} and {KEY} in {MODE}"


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(value):
    return {"type": "text", "text": value}


def large():
    """1 MiB, with the token at the very end."""
    return "x" * ((1 << 20) - len(TOKEN)) + TOKEN


def call(name, params):
    meta = params.get("_meta", {})
    if name == "say":
        structured = {"plain": 1, TOKEN: {"deep": [BOTH, {"again " + KEY: TOKEN}]}, "***": 2}
        resource = {"uri": "a://x?" + KEY, "mimeType": "text/plain", "text": BOTH}
        blob = {"uri": "a://y", "blob": base64.b64encode(b"bytes").decode()}
        link = {"type": "resource_link", "uri": "a://" + KEY, "name": BOTH}
        content = [text(BOTH), {"type": "resource", "resource": resource},
                   {"type": "resource", "resource": blob}, link]
        return {"result": {"content": content, "structuredContent": structured,
                           "_meta": {"k": TOKEN}}}
    if name == "fail":
        return {"error": {"code": -32000, "message": BOTH, "data": {TOKEN: KEY}}}
    if name == "large":
        return {"result": {"content": [text(large())]}}
    if name == "mutter":
        # Wherever a long line is cut, a credential is cut as well.
        for room in range(2000, 2050):
            print("x" * room + TOKEN, file=sys.stderr, flush=True)
        return {"result": {"content": [text("done")]}}
    if name == "progress":
        send(method="notifications/message",
             params={"level": "info", "logger": KEY, "data": {"said": BOTH}})
        send(method="notifications/progress",
             params={"progressToken": meta.get("progressToken"), "progress": 1, "message": BOTH})
        return {"result": {"content": [text("done")]}}
    if name == "ask":
        form = {"type": "object", "properties": {TOKEN: {"type": "string", "title": KEY}}}
        send(id="q", method="elicitation/create",
             params={"mode": "form", "message": BOTH, "requestedSchema": form})
        answer = json.loads(sys.stdin.readline())
        return {"result": {"content": [text(answer["result"]["action"])]}}
    print(BOTH, file=sys.stderr, flush=True)
    os._exit(3)


def answer(method, params):
    if method == "initialize":
        return {"result": {"protocolVersion": "2025-11-25", "instructions": BOTH,
                           "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                           "serverInfo": {"name": "leaking", "title": KEY, "version": TOKEN}}}
    if method == "tools/list":
        schema = {"type": "object", "properties": {"a": {"type": "string", "default": TOKEN}}}
        names = ["say", "fail", "large", "mutter", "progress", "ask", "die"]
        return {"result": {"tools": [{"name": n, "description": BOTH, "inputSchema": schema}
                                     for n in names]}}
    if method == "tools/call":
        return call(params["name"], params)
    if method == "prompts/list":
        return {"result": {"prompts": [{"name": "p", "description": BOTH}]}}
    if method == "prompts/get":
        return {"result": {"description": BOTH,
                           "messages": [{"role": "user", "content": text(BOTH)}]}}
    if method == "resources/list":
        return {"result": {"resources": [{"uri": "a://x", "name": BOTH, "description": KEY}]}}
    if method == "resources/templates/list":
        return {"result": {"resourceTemplates": [{"uriTemplate": "a://{x}", "name": TOKEN}]}}
    if method == "resources/read":
        return {"result": {"contents": [{"uri": params["uri"], "text": BOTH}]}}
    return {"error": {"code": -32601, "message": "Method not found: " + KEY}}


while line := sys.stdin.readline():
    message = json.loads(line)
    if "id" in message and "method" in message:
        send(id=message["id"], **answer(message["method"], message.get("params", {})))
