"""An MCP server of the older HTTP transport that does one thing wrong: python3 older_http.py KIND

It prints its port. Of KIND depends how its event stream begins; with the kind `good` it speaks the
protocol of 2024-11-05, and what it does wrong depends on the tool that is called. Only GET opens the
stream, at every path but the one for messages. GET /log tells every request so far.
"""

import json
import queue
import sys
import time

from http_server import JsonHandler, serve

KIND = sys.argv[1]
MEBIBYTE = 1 << 20
TOOLS = ["echo", "headers", "huge", "no-json", "closes", "floods", "silent", "broken"]
TOOLS += ["unauthorized", "lost", "gone", "half-opens", "pause", "batch"]
sessions, log = {}, []


class Handler(JsonHandler):
    def reply(self, status, body, kind="text/plain", **headers):
        super().reply(status, body, kind, **headers)

    def do_GET(self):
        if self.path == "/log":
            return self.reply(200, json.dumps(log).encode())
        log.append("GET")
        if KIND == "elsewhere":
            return self.reply(302, b"", Location="http://localhost:1/steal")
        self.send_response(200)
        kind = "text/plain" if KIND == "no-stream" else "text/event-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.open()
        except OSError:
            pass

    def open(self):
        id = str(len(sessions))
        events = sessions[id] = queue.Queue()
        endpoint = f"/messages?session={id}"
        if KIND == "other-origin":
            endpoint = "http://localhost:1/steal"
        elif KIND == "other-scheme":
            endpoint = self.base().replace("http:", "https:") + "/messages"
        elif KIND == "no-address":
            endpoint = "http://["
        elif KIND == "long-address":
            endpoint = "/" + "a" * 10_000
        if KIND == "silent":
            time.sleep(1000)
        while KIND == "flood":
            self.wfile.write(b"event: noise\ndata: " + b"x" * 1000 + b"\n\n")
        while KIND == "endless":
            self.wfile.write(b"data: " + b"x" * MEBIBYTE)
        self.wfile.write(b": hello\r\n\r\nevent: endpoint\r\ndata: " + endpoint.encode() + b"\r\n\r\n")
        while True:
            event = events.get()
            if event is None:
                return
            self.wfile.write(b"event: message\ndata: " + event + b"\n\n")

    def do_POST(self):
        body = self.body()
        path, _, query = self.path.partition("?session=")
        if path != "/messages":
            log.append("POST elsewhere")
            return self.reply(404, b"Cannot POST")
        message = json.loads(body)
        log.append("POST " + message["method"])
        events = sessions.get(query)
        if events is None:
            return self.reply(404, b"Could not find session")
        self.speak(events, message)

    def speak(self, events, message):
        method, id, params = message["method"], message.get("id"), message.get("params", {})

        def answer(result):
            events.put(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode())

        tool = params.get("name") if method == "tools/call" else None
        if tool == "broken":
            return self.reply(500, b"oops")
        if tool == "pause":
            return self.reply(503, b"later", Retry_After="50")
        if tool == "unauthorized":
            return self.reply(401, b"who?")
        if tool == "lost":
            sessions.clear()
            return self.reply(404, b"Could not find session")
        self.reply(202, b"Accepted")
        if id is None:
            return
        if method == "initialize":
            info = {"name": "older", "version": "1"}
            version = "2024-11-05"
            answer({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif method == "tools/list":
            answer({"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in TOOLS]})
        elif tool == "echo":
            answer({"content": [{"type": "text", "text": "here"}]})
        elif tool == "headers":
            answer({"content": [{"type": "text", "text": self.headers.get("X-Key", "none")}]})
        elif tool == "huge":
            text = b"x" * (17 * MEBIBYTE)
            events.put(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":"%s"}}' % (id, text))
        elif tool == "no-json":
            events.put(b"{oops")
            events.put(b'{"jsonrpc":"2.0","id":%d,"result":7,"error":8}' % id)
        elif tool == "half-opens":
            # The stream stays open, and nothing comes through it any more.
            sessions[self.path.partition("?session=")[2]] = queue.Queue()
        elif tool == "batch":
            ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
            result = {"content": [{"type": "text", "text": "in a batch"}]}
            events.put(json.dumps([ping, {"jsonrpc": "2.0", "id": id, "result": result}]).encode())
        elif tool == "closes":
            events.put(None)
        elif tool == "floods":
            for _ in range(20_000):
                events.put(b'{"jsonrpc":"2.0","method":"notifications/whatever"}')
            answer({"content": [{"type": "text", "text": "after the flood"}]})
        elif tool != "silent":
            error = {"code": -32601, "message": "Method not found"}
            events.put(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}).encode())


serve(Handler)
