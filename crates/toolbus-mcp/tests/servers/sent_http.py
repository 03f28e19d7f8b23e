"""An HTTP server that repeats what it is sent: python3 sent_http.py ANY

Its one tool `sent` answers with the address and the headers of its own request, and fails with them
where it is to (`fail`). It prints its port; GET /log tells them of every request so far.
"""

import json

from http_server import JsonHandler, serve

log = []


class Handler(JsonHandler):
    def do_GET(self):
        if self.path == "/log":
            self.reply(200, log)
        else:
            self.reply(405, b"", kind="text/plain")

    def do_POST(self):
        message = json.loads(self.body())
        headers = {name.lower(): value for name, value in self.headers.items()}
        sent = {"path": self.path, "headers": headers}
        log.append(sent)
        if "id" not in message:
            return self.reply(202, b"")
        id, params = message["id"], message.get("params", {})
        if message["method"] == "initialize":
            return self.result(id, {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "sent", "version": "1"},
            })
        if message["method"] == "tools/list":
            schema = {"type": "object"}
            return self.result(id, {"tools": [{"name": "sent", "inputSchema": schema}]})
        if message["method"] == "tools/call":
            text = json.dumps(sent)
            if params.get("arguments", {}).get("fail"):
                return self.error(id, -32000, text)
            return self.result(id, {"content": [{"type": "text", "text": text}]})
        return self.unknown_method(id)


serve(Handler)
