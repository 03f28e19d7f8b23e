"""An MCP server over stdio that talks back: it asks, logs, tells progress, and changes.

usage: asker.py FOLDER

It speaks 2025-11-25 and knows one client. What the client tells it leaves a line in FOLDER/marks.
Tools:
  ask     logs and tells progress, asks for a name by a form, then for a word of the client's model
  touch   the resource note://1 has changed
  grow    there is one tool more from now on, and one prompt and one resource
"""

import json
import os
import sys
import threading

FOLDER = sys.argv[1]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
output, state = threading.Lock(), threading.Lock()
waiting, subscribed, grown = {}, set(), 0


def mark(text):
    with state, open(os.path.join(FOLDER, "marks"), "a") as marks:
        marks.write(text + "\n")


def send(message):
    with output:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        sys.stdout.flush()


def tell(method, **params):
    send({"method": method, "params": params})


def ask(method, **params):
    number, answered = f"q{len(waiting)}", threading.Event()
    waiting[number] = [answered, None]
    send({"id": number, "method": method, "params": params})
    answered.wait()
    return waiting[number][1].get("result", {})


def call(name, params):
    global grown
    if name == "ask":
        token = params.get("_meta", {}).get("progressToken")
        tell("notifications/message", level="warning", data="about to ask")
        if token is not None:
            tell("notifications/progress", progressToken=token, progress=1, total=2)
        form = ask("elicitation/create", message="Who are you?", requestedSchema=FORM)
        mark("form " + form.get("action", "error"))
        said = {"role": "user", "content": {"type": "text", "text": "A word?"}}
        word = ask("sampling/createMessage", messages=[said], maxTokens=5)
        mark("word " + word.get("content", {}).get("text", "none"))
        return f"{form.get('content', {}).get('name')}: {word.get('content', {}).get('text')}"
    if name == "touch":
        with state:
            is_heard = "note://1" in subscribed
        if is_heard:
            tell("notifications/resources/updated", uri="note://1")
        return "touched"
    grown += 1
    for what in ("tools", "prompts", "resources"):
        tell(f"notifications/{what}/list_changed")
    return "grown"


def names(first):
    return [first] + [f"{first}{number}" for number in range(1, grown + 1)]


def listed(method):
    if method == "tools/list":
        tools = ["ask", "touch"] + names("grow")
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]}
    if method == "prompts/list":
        argument = {"name": "city", "required": True}
        return {"prompts": [{"name": name, "arguments": [argument]} for name in names("travel")]}
    if method == "resources/list":
        return {"resources": [{"uri": f"note://{n}", "name": n} for n in ["1"] + names("n")[1:]]}
    return {"resourceTemplates": []}


def complete(params):
    cities = ["Berlin", "Bern", "Graz"]
    begun = params["argument"]["value"]
    known = params.get("context", {}).get("arguments", {}).get("not")
    values = [city for city in cities if city.startswith(begun) and city != known]
    if params["ref"].get("name") != "travel" or params["argument"]["name"] != "city":
        values = []
    return {"completion": {"values": values, "total": len(values), "hasMore": False}}


def answer(method, params):
    if method == "initialize":
        changes = {"listChanged": True}
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "tools": changes,
                "prompts": changes,
                "resources": changes | {"subscribe": True},
                "completions": {},
                "logging": {},
            },
            "serverInfo": {"name": "asker", "version": "1"},
        }
    if method == "tools/call":
        return {"content": [{"type": "text", "text": call(params["name"], params)}]}
    if method in ("resources/subscribe", "resources/unsubscribe"):
        verb = method.split("/")[1]
        mark(f"{verb} {params['uri']}")
        with state:
            (subscribed.add if verb == "subscribe" else subscribed.discard)(params["uri"])
        return {}
    if method == "completion/complete":
        return complete(params)
    return listed(method) if method.endswith("/list") else None


def serve(request):
    result = answer(request["method"], request.get("params", {}))
    if result is None:
        error = {"code": -32601, "message": "no such method"}
        send({"id": request["id"], "error": error})
    else:
        send({"id": request["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        waited = waiting.get(message.get("id"))
        if waited:
            waited[1] = message
            waited[0].set()
    elif "id" in message:
        threading.Thread(target=serve, args=(message,), daemon=True).start()
    elif message["method"] == "notifications/cancelled":
        mark("cancelled")
os._exit(0)
