"""A server made with the Python kit, over streamable HTTP: python kit_http.py json|stream

It speaks the protocol of 2026-07-28 without sessions, and checks what that wants of a request. It
prints its port. POST /control adds a tool and tells who has asked; GET /log tells every request so
far.
"""

import json
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.shared.subscriptions import ToolsListChanged

server = MCPServer("kit")


@server.tool()
def echo(text: str) -> str:
    return text


def late() -> str:
    return "here"


app = server.streamable_http_app(json_response=sys.argv[1] == "json")
log = []


async def logged(scope, receive, send):
    if scope["type"] != "http":
        return await app(scope, receive, send)
    if scope["path"] == "/log":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        return await send({"type": "http.response.body", "body": json.dumps(log).encode()})
    if scope["path"] == "/control":
        server.add_tool(late)
        await server._subscriptions.publish(ToolsListChanged())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        return await send({"type": "http.response.body", "body": b"{}"})
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    message = json.loads(body) if body else {}
    log.append({
        "http": scope["method"], "method": message.get("method"),
        "meta": message.get("params", {}).get("_meta"),
        "headers": {name: value for name, value in headers.items() if name.startswith("mcp-")},
    })
    whole = [{"type": "http.request", "body": body}]

    async def again():
        return whole.pop() if whole else await receive()

    await app(scope, again, send)


listening = socket.create_server(("127.0.0.1", 0))
print(listening.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(logged, log_level="critical")).run(sockets=[listening])
