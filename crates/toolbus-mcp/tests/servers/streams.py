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

from http_server import JsonHandler, serve

STREAMS = int(sys.argv[1])
get = STREAMS
sessions, log = {}, []


class Session:
    def __init__(self):
        self.events = queue.Queue()
        self.uris = set()


class Handler(JsonHandler):
    def session(self):
        return sessions.get(self.headers.get("Mcp-Session-Id"))

    def do_GET(self):
        if self.path == "/log":
            return self.reply(200, log)
        session = self.session()
        log.append(f"GET {get if session else 404}")
        if session is None or get != 200:
            return self.reply(404 if session is None else get, "no")
        self.open_stream()
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
        body = json.loads(self.body())
        if self.path == "/control":
            return self.control(body)
        method, id, params = body["method"], body.get("id"), body.get("params", {})
        log.append(method)

        if method == "initialize":
            get = STREAMS
            name = f"session-{len(log)}"
            sessions[name] = Session()
            capabilities = {"tools": {}, "resources": {"subscribe": True}}
            info = {"name": "s", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            return self.result(id, result, Mcp_Session_Id=name)
        if method == "server/discover":
            return self.unknown_method(id)
        session = self.session()
        if session is None:
            return self.reply(404, {})
        if id is None:
            return self.reply(202, {})
        if method == "tools/list":
            return self.result(id, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        if method == "resources/list":
            return self.result(id, {"resources": [{"uri": "a://1", "name": "one"}]})
        if method == "resources/templates/list":
            return self.result(id, {"resourceTemplates": []})
        if method == "resources/subscribe":
            session.uris.add(params["uri"])
        if method == "resources/unsubscribe":
            session.uris.discard(params["uri"])
        if method == "tools/call":
            return self.result(id, {"content": [{"type": "text", "text": "here"}]})
        self.result(id, {})


serve(Handler)
