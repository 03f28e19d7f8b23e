"""What the HTTP servers here share: a handler that answers with JSON, and the listening."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class JsonHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def base(self):
        """The address of this server."""
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status, body, kind="application/json", **headers):
        """Bytes go as they are, everything else as JSON."""
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def result(self, id, result, **headers):
        self.reply(200, {"jsonrpc": "2.0", "id": id, "result": result}, **headers)

    def error(self, id, code, message, status=200):
        error = {"code": code, "message": message}
        self.reply(status, {"jsonrpc": "2.0", "id": id, "error": error})

    def unknown_method(self, id):
        self.error(id, -32601, "Method not found")

    def open_stream(self):
        """Begins an event stream that ends with its connection."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True


def serve(handler):
    """Prints the port, and serves until the process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
