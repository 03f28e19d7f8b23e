"""An MCP server of 2025-11-25 with sessions, event streams and subscriptions: python3 streams.py GET

It prints its port. GET is the status that it refuses event streams with, or 200. POST /control with
one of these does something wrong, or reports something:

    {"do": "forget"}            forgets all sessions, and leaves their streams open
    {"do": "break", "get": N}   ends all streams, and refuses new ones with the status N until it is
                                initialized again
    {"do": "flood"}             sends an event of 17 MiB on every stream
    {"do": "update", "uri": U}  reports to each session that has subscribed to U that it has changed

GET /log tells every request so far, and when a stream was opened.
"""

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STREAMS = int(sys.argv[1])
get = STREAMS
sessions, log = {}, []


class Session:
    def __init__(self):
        self.events = queue.Queue()
        self.uris = set()


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

    def session(self):
        return sessions.get(self.headers.get("Mcp-Session-Id"))

    def do_GET(self):
        if self.path == "/log":
            return self.reply(200, log)
        session = self.session()
        log.append(f"GET {get if session else 404}")
        if session is None or get != 200:
            return self.reply(404 if session is None else get, "no")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while True:
            event = session.events.get()
            if event is None:
                return
            self.wfile.write(b"data: " + event + b"\n\n")
            self.wfile.flush()

    def do_DELETE(self):
        self.reply(200, {})

    def control(self, order):
        global get
        for session in sessions.values():
            if order["do"] == "break":
                session.events.put(None)
            elif order["do"] == "flood":
                session.events.put(b"x" * (17 << 20))
            elif order["do"] == "update" and order["uri"] in session.uris:
                params = {"uri": order["uri"]}
                note = {"method": "notifications/resources/updated", "params": params}
                session.events.put(json.dumps({"jsonrpc": "2.0", **note}).encode())
        if order["do"] == "forget":
            sessions.clear()
        get = order.get("get", get)
        self.reply(200, {})

    def do_POST(self):
        global get
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        if self.path == "/control":
            return self.control(body)
        method, id, params = body["method"], body.get("id"), body.get("params", {})
        log.append(method)

        def answer(result, **headers):
            self.reply(200, {"jsonrpc": "2.0", "id": id, "result": result}, **headers)

        if method == "initialize":
            get = STREAMS
            name = f"session-{len(log)}"
            sessions[name] = Session()
            capabilities = {"tools": {}, "resources": {"subscribe": True}}
            return answer({"protocolVersion": "2025-11-25", "capabilities": capabilities,
                           "serverInfo": {"name": "s", "version": "1"}}, Mcp_Session_Id=name)
        if method == "server/discover":
            error = {"code": -32601, "message": "Method not found"}
            return self.reply(200, {"jsonrpc": "2.0", "id": id, "error": error})
        session = self.session()
        if session is None:
            return self.reply(404, {})
        if id is None:
            return self.reply(202, {})
        if method == "tools/list":
            return answer({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        if method == "resources/list":
            return answer({"resources": [{"uri": "a://1", "name": "one"}]})
        if method == "resources/templates/list":
            return answer({"resourceTemplates": []})
        if method == "resources/subscribe":
            session.uris.add(params["uri"])
        if method == "resources/unsubscribe":
            session.uris.discard(params["uri"])
        if method == "tools/call":
            return answer({"content": [{"type": "text", "text": "here"}]})
        answer({})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
