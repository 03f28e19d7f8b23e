"""An MCP server that asks for OAuth, and its authorization server, in one: python3 oauth.py [JSON]

It prints its port. JSON sets what it does otherwise, see `behaviour`; so does a POST to /control
later. GET /log tells every request so far. It checks what a client has to do: PKCE (S256), resource
indicators, exact redirects, a refresh token for one use, client authentication.
"""

import base64
import hashlib
import json
import secrets
import sys
import threading
import time
from urllib.parse import parse_qs, urlencode, urlsplit

from http_server import JsonHandler, serve

behaviour = {
    "lifetime": 3600,  # of access tokens, in seconds; 0 leaves it unsaid
    "issuer": None,  # what the metadata says instead of the truth
    "audience": None,  # what tokens are for instead of what was asked
    "servers": None,  # the authorization servers that the resource names instead of its own
    "resource": None,  # the resource that the resource's metadata names instead of its own
    "metadata": True,  # whether there is any
    "documents": False,  # whether a client's id may be the address of a document
    "registration": True,  # whether clients can register
    "secret": False,  # whether those that register get a secret
    "challenge": True,  # whether a 401 names the metadata
    "unlisted": False,  # whether the resource has no metadata
    "at": None,  # where the metadata is instead of where it should be
    "hidden": False,  # whether only the 401 of a POST names them, and they are nowhere else
    "open": [],  # the methods that need no token
    "given": None,  # the scopes that tokens have at most
    "iss": None,  # what the redirect says instead of the issuer
    "token_status": None,  # the status of every answer of the token endpoint
    "token_endpoint": None,
    "repeat": False,  # whether a refusal repeats what was sent
    "known": None,  # a token that is good without having been given
    "pause": 0,  # before the token endpoint answers, in seconds
}
behaviour.update(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
clients = {"service": {"secret": "s3cret-of-the-service", "redirects": []},
           "preset": {"secret": None, "redirects": None},
           "confidential": {"secret": "s3cret-of-a-client", "redirects": None}}
codes, access, refresh, log = {}, {}, {}, []
lock = threading.Lock()


class Handler(JsonHandler):
    def do_GET(self):
        url = urlsplit(self.path)
        path, query = url.path, {k: v[0] for k, v in parse_qs(url.query).items()}
        if path == "/log":
            return self.reply(200, log)
        log.append({"path": path, "query": query})
        if path == "/mcp" and not behaviour["hidden"]:
            return self.refuse() if not self.token() else self.reply(405, b"")
        if path == resource_metadata() and behaviour["metadata"] and not behaviour["unlisted"]:
            scopes = ["profile"] if behaviour["hidden"] else ["tools"]
            return self.reply(200, {"resource": behaviour["resource"] or self.base() + "/mcp",
                                    "authorization_servers": behaviour["servers"] or [self.issuer()],
                                    "scopes_supported": scopes})
        where = "/tenant/.well-known/openid-configuration" if behaviour["hidden"] \
            else "/.well-known/oauth-authorization-server"
        if path == (behaviour["at"] or where) and behaviour["metadata"]:
            return self.reply(200, metadata(self.base(), self.issuer()))
        if path == "/authorize":
            return self.authorize(query)
        self.reply(404, {})

    def do_DELETE(self):
        self.reply(405, b"")

    def do_POST(self):
        body = self.body()
        if self.path == "/control":
            return self.control(json.loads(body))
        if self.path == "/register":
            log.append({"path": self.path})
            return self.register(json.loads(body))
        if self.path == "/token":
            form = {k: v[0] for k, v in parse_qs(body.decode()).items()}
            log.append({"path": self.path, "grant": form.get("grant_type"),
                        "scope": form.get("scope"), "resource": form.get("resource")})
            time.sleep(behaviour["pause"])
            with lock:
                return self.give(form)
        message = json.loads(body)
        log.append({"path": self.path, "method": message["method"],
                    "token": "Authorization" in self.headers})
        self.speak(message)

    # The authorization server.

    def issuer(self):
        return self.base() + ("/tenant" if behaviour["hidden"] else "")

    def control(self, order):
        behaviour.update(order.get("set", {}))
        if order.get("expire"):
            access.clear()
        if order.get("revoke"):
            refresh.clear()
        self.reply(200, {"access": list(access), "refresh": list(refresh)})

    def register(self, asked):
        id = "client-" + secrets.token_hex(4)
        secret = "s3cret-" + secrets.token_hex(8) if behaviour["secret"] else None
        clients[id] = {"secret": secret, "redirects": asked["redirect_uris"]}
        answer = {"client_id": id, "redirect_uris": asked["redirect_uris"]}
        if secret:
            answer["client_secret"] = secret
        self.reply(201, answer)

    def authorize(self, query):
        id = query["client_id"]
        known = clients.get(id)
        if known is None and behaviour["documents"] and id.startswith("https://"):
            known = clients.setdefault(id, {"secret": None, "redirects": None})
        redirects = known and known["redirects"]
        right = (known and (redirects is None or query["redirect_uri"] in redirects)
                 and query["response_type"] == "code" and query["code_challenge_method"] == "S256"
                 and query["resource"] == self.base() + "/mcp" and query.get("state"))
        if not right:
            return self.reply(400, {"error": "invalid_request"})
        code = "s3cret-code-" + secrets.token_hex(8)
        codes[code] = query
        back = urlencode({"code": code, "state": query["state"],
                          "iss": behaviour["iss"] or self.issuer()})
        self.reply(302, b"", Location=query["redirect_uri"] + "?" + back)

    def give(self, form):
        if behaviour["token_status"]:
            return self.reply(behaviour["token_status"], {"error": "server_error"})
        id = self.client(form)
        if id is None:
            return self.reply(401, {"error": "invalid_client"})
        kind = form["grant_type"]
        if kind == "client_credentials" and id == "service":
            return self.issue(id, form.get("scope", "tools"), form, False)
        if kind == "authorization_code":
            asked = codes.pop(form["code"], None)
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if asked and asked["client_id"] == id and asked["code_challenge"] == challenge \
                    and asked["redirect_uri"] == form["redirect_uri"]:
                return self.issue(id, asked.get("scope", "tools"), form, True)
        if kind == "refresh_token":
            kept = refresh.pop(form["refresh_token"], None)
            if kept and kept["client"] == id:
                return self.issue(id, kept["scope"], form, True)
        what = "no " + form.get("refresh_token", "") if behaviour["repeat"] else "no"
        self.reply(400, {"error": "invalid_grant", "error_description": what})

    def client(self, form):
        id, secret = form.get("client_id"), form.get("client_secret")
        header = self.headers.get("Authorization", "")
        if header.startswith("Basic "):
            id, secret = base64.b64decode(header[6:]).decode().split(":")
        known = clients.get(id)
        return id if known and known["secret"] == secret else None

    def issue(self, id, scope, form, renewable):
        token = "s3cret-access-" + secrets.token_hex(12)
        if behaviour["given"] is not None:
            scope = " ".join(s for s in scope.split() if s in behaviour["given"])
        access[token] = {"scope": scope.split(),
                         "audience": behaviour["audience"] or form.get("resource")}
        answer = {"access_token": token, "token_type": "Bearer", "scope": scope}
        if behaviour["lifetime"]:
            answer["expires_in"] = behaviour["lifetime"]
        if renewable:
            answer["refresh_token"] = "s3cret-refresh-" + secrets.token_hex(12)
            refresh[answer["refresh_token"]] = {"client": id, "scope": scope}
        self.reply(200, answer)

    # The MCP server.

    def token(self):
        header = self.headers.get("Authorization", "")
        token = header.removeprefix("Bearer ")
        if token == behaviour["known"]:
            return {"scope": [], "audience": self.base() + "/mcp"}
        known = access.get(token)
        return known if known and known["audience"] == self.base() + "/mcp" else None

    def refuse(self):
        where = self.base() + resource_metadata()
        challenge = f'Bearer resource_metadata="{where}", scope="tools"'
        body = self.headers.get("Authorization", "").encode() if behaviour["repeat"] else b""
        if behaviour["challenge"]:
            self.reply(401, body, WWW_Authenticate=challenge)
        else:
            self.reply(401, body)

    def speak(self, message):
        method, id, params = message["method"], message.get("id"), message.get("params", {})
        token = self.token()
        if token is None and method not in behaviour["open"]:
            return self.refuse()
        if id is None:
            return self.reply(202, b"")
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "guarded", "version": "1"}}
        elif method == "tools/list":
            names = ["echo", "admin", "repeat", "mirror"]
            result = {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}
        elif method == "tools/call" and params["name"] == "repeat":
            return self.error(id, -32000, "you sent " + self.headers["Authorization"])
        elif method == "tools/call" and params["name"] == "mirror":
            sent = self.headers["Authorization"]
            result = {"content": [{"type": "text", "text": sent}],
                      "structuredContent": {sent: [sent]}}
        elif method == "tools/call":
            if params["name"] == "admin" and "admin" not in token["scope"]:
                challenge = 'Bearer error="insufficient_scope", scope="admin"'
                return self.reply(403, b"", WWW_Authenticate=challenge)
            result = {"content": [{"type": "text", "text": "here"}]}
        else:
            return self.unknown_method(id)
        self.result(id, result)


def resource_metadata():
    return "/elsewhere.json" if behaviour["hidden"] \
        else "/.well-known/oauth-protected-resource/mcp"


def metadata(base, issuer):
    known = {"issuer": behaviour["issuer"] or issuer,
             "authorization_endpoint": base + "/authorize",
             "token_endpoint": behaviour["token_endpoint"] or base + "/token",
             "response_types_supported": ["code"],
             "code_challenge_methods_supported": ["S256"],
             "authorization_response_iss_parameter_supported": True,
             "client_id_metadata_document_supported": behaviour["documents"]}
    if behaviour["registration"]:
        known["registration_endpoint"] = base + "/register"
    return known


serve(Handler)
