"""An MCP server of 2025-11-25 that forgets its sessions when it is told to: python3 sessions.py HOW

It prints its port. HOW it says that it does not know a session: `404`, as the protocol has it, or
`400` with a JSON-RPC error in the words of a kit. POST /control forgets all; GET /log tells every
request so far. With `tool-200`, `tool-400` and `tool-stream` it knows its sessions, and its tool
answers in such words, with that status or in an event stream.
"""

import json
import sys

from http_server import JsonHandler, serve

HOW = sys.argv[1]
sessions, log = set(), []


class Handler(JsonHandler):
    def do_GET(self):
        self.reply(200 if self.path == "/log" else 405, log)

    def do_DELETE(self):
        self.reply(200, {})

    def do_POST(self):
        body = self.body()
        if self.path == "/control":
            sessions.clear()
            return self.reply(200, {})
        message = json.loads(body)
        method, id = message["method"], message.get("id")
        log.append(method)

        if method == "initialize":
            session = f"session-{len(log)}"
            sessions.add(session)
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
            return self.result(id, result, Mcp_Session_Id=session)
        if method == "server/discover":
            return self.unknown_method(id)
        if self.headers.get("Mcp-Session-Id") not in sessions:
            return self.error(None, -32000, "Bad Request: No valid session ID provided", int(HOW))
        if id is None:
            return self.reply(202, {})
        if method == "tools/list":
            return self.result(id, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        if HOW.startswith("tool-"):
            error = {"code": -32600, "message": "Session not found"}
            return self.refuse({"jsonrpc": "2.0", "id": id, "error": error})
        self.result(id, {"content": [{"type": "text", "text": "here"}]})

    def refuse(self, message):
        how = HOW.removeprefix("tool-")
        if how != "stream":
            return self.reply(int(how), message)
        event = b"data: " + json.dumps(message).encode() + b"\n\n"
        self.reply(200, event, "text/event-stream")


serve(Handler)
