"""An MCP server of 2025-11-25 that forgets its sessions when it is told to: python3 sessions.py HOW

It prints its port. HOW it says that it does not know a session: `404`, as the protocol has it, or
`400` with a JSON-RPC error in the words of a kit. POST /control forgets all; GET /log tells every
request so far. With `tool-200`, `tool-400` and `tool-stream` it knows its sessions, and its tool
answers in such words, with that status or in an event stream.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOW = sys.argv[1]
sessions, log = set(), []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, **headers):
        body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(200 if self.path == "/log" else 405, log)

    def do_DELETE(self):
        self.reply(200, {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/control":
            sessions.clear()
            return self.reply(200, {})
        message = json.loads(body)
        method, id = message["method"], message.get("id")
        log.append(method)

        def answer(result, **headers):
            self.reply(200, {"jsonrpc": "2.0", "id": id, "result": result}, **headers)

        if method == "initialize":
            session = f"session-{len(log)}"
            sessions.add(session)
            return answer({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                           "serverInfo": {"name": "s", "version": "1"}}, Mcp_Session_Id=session)
        if method == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            return self.reply(200, {"jsonrpc": "2.0", "id": id, "error": error})
        if self.headers.get("Mcp-Session-Id") not in sessions:
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            return self.reply(int(HOW), {"jsonrpc": "2.0", "id": None, "error": error})
        if id is None:
            return self.reply(202, {})
        if method == "tools/list":
            return answer({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        if HOW.startswith("tool-"):
            error = {"code": -32600, "message": "Session not found"}
            return self.refuse({"jsonrpc": "2.0", "id": id, "error": error})
        answer({"content": [{"type": "text", "text": "here"}]})

    def refuse(self, message):
        how = HOW.removeprefix("tool-")
        if how != "stream":
            return self.reply(int(how), message)
        event = b"data: " + json.dumps(message).encode() + b"\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(event)))
        self.end_headers()
        self.wfile.write(event)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
