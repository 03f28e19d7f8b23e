"""One answer of OpenRouter's API, for whoever has the key: ANSWER at /api/v1/credits."""

import http.server
import os


class Door(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        has_key = self.headers["Authorization"] == "Bearer " + os.environ["KEY"]
        status = 401 if not has_key else 200 if self.path == "/api/v1/credits" else 404
        body = os.environ["ANSWER"] if status == 200 else '{"error": {"message": "no"}}'
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())


http.server.ThreadingHTTPServer(("", 8080), Door).serve_forever()
