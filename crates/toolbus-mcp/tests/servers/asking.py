"""A server that asks its client and offers prompts and resources: python3 asking.py ERA [silent]

ERA is `older` (2025-11-25: requests of its own, over the one stream) or `newer` (2026-07-28: results
that require input). Its tools ask as their names say. A silent one never lists what it offers beside
tools, and does not answer who subscribes.
"""

import json
import sys
import threading
import time

ERA = sys.argv[1]
IS_SILENT = "silent" in sys.argv[2:]
FORM = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 42}},
        "required": ["name"],
    },
}
SAMPLING = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "say hi"}}],
    "maxTokens": 10,
}
lock = threading.Lock()
waiting = {}
cancelled = threading.Event()
goes_on, late_is_over = threading.Event(), threading.Event()
late = []
calls = {"count": 0}
lists = {"tools/list": 0, "prompts/list": 0}
prompts = ["greet"]


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(number, method, params):
    """Sends a request and waits for its answer."""
    answered = threading.Event()
    waiting[number] = (answered, {})
    send({"id": number, "method": method, "params": params})
    answered.wait(60)
    return waiting.pop(number)[1]


def text(value):
    value = value if isinstance(value, str) else json.dumps(value)
    return {"resultType": "complete", "content": [{"type": "text", "text": value}]}


def run_older(id, name, arguments):
    number = f"ask-{id}"
    if name == "form":
        return text(ask(number, "elicitation/create", FORM).get("result"))
    if name == "sample":
        answer = ask(number, "sampling/createMessage", SAMPLING)
        return text(answer.get("error") or answer.get("result"))
    if name == "roots":
        return text(ask(number, "roots/list", {}).get("error"))
    if name == "often":
        actions = [
            ask(f"{number}-{n}", "elicitation/create", FORM)["result"]["action"]
            for n in range(arguments["times"])
        ]
        return text({action: actions.count(action) for action in sorted(set(actions))})
    if name == "flood":
        # All at once, and none is waited for.
        for n in range(10_000):
            send({"id": f"{number}-{n}", "method": "elicitation/create", "params": FORM})
        return text("flooded")
    if name == "long":
        form = {**FORM, "message": "x" * arguments["bytes"]}
        return text(ask(number, "elicitation/create", form).get("result"))
    if name == "log":
        for level, data in [("info", "started"), ("error", {"key": "hunter2-hunter2"})]:
            params = {"level": level, "logger": "db", "data": data}
            send({"method": "notifications/message", "params": params})
        return text("logged")
    if name == "change":
        began = time.monotonic()
        for n in range(100):
            if n == 99:
                prompts.append("another")
            send({"method": "notifications/prompts/list_changed"})
            send({"method": "notifications/resources/updated", "params": {"uri": "a://1"}})
            time.sleep(0.002)
        return text({"took_ms": round((time.monotonic() - began) * 1000)})
    if name == "lists":
        return text(lists)
    if name == "late":
        # Goes on when nobody waits for it any more.
        goes_on.wait(60)
        params = {"level": "info", "data": "of the late call"}
        send({"method": "notifications/message", "params": params})
        late.append(ask(number, "elicitation/create", FORM).get("result"))
        return text("late")
    if name == "provoke":
        goes_on.set()
        late_is_over.wait(60)
        return text(late[0])
    if name == "wait":
        cancelled.wait(60)
        return text("waited")
    if name == "release":
        cancelled.set()
        return text("released")
    return text("echo")


def run_newer(id, params):
    name = params["name"]
    responses, state = params.get("inputResponses"), params.get("requestState")
    meta = params.get("_meta", {})
    if name == "capabilities":
        return text(meta.get("io.modelcontextprotocol/clientCapabilities"))
    if name == "endless":
        return {"resultType": "input_required", "requestState": str(int(state or 0) + 1)}
    if name == "again":
        # Wants nothing but to be asked again, twice.
        calls["count"] += 1
        if calls["count"] < 3:
            return {"resultType": "input_required", "requestState": f"s{calls['count']}"}
        return text(f"state {state}")
    if name == "greedy":
        ask = {"method": "elicitation/create", "params": {"mode": "form", **FORM}}
        return {"resultType": "input_required", "inputRequests": {str(n): ask for n in range(100)}}
    if responses is None:
        method, params = {
            "form": ("elicitation/create", {"mode": "form", **FORM}),
            "url": (
                "elicitation/create",
                {"mode": "url", "message": "Log in", "url": "https://login.example/"},
            ),
            "sample": ("sampling/createMessage", SAMPLING),
            "roots": ("roots/list", {}),
        }[name]
        asked = {"what": {"method": method, "params": params}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": "opaque"}
    return text({"responses": responses, "state": state})


def offer(method, params):
    """Prompts and resources."""
    if method == "prompts/list":
        told = [{"name": name, "arguments": [{"name": "who"}]} for name in prompts]
        return {"prompts": told}
    if method == "prompts/get":
        if ERA == "newer" and "inputResponses" not in params:
            asked = {"what": {"method": "elicitation/create", "params": {"mode": "form", **FORM}}}
            return {"resultType": "input_required", "inputRequests": asked}
        who = params.get("inputResponses", {}).get("what") or params["arguments"]["who"]
        content = {"type": "text", "text": f"greet {who}"}
        return {"messages": [{"role": "user", "content": content}]}
    if method == "resources/list":
        # Three pages of two, and the last one leads to itself.
        page = int(params.get("cursor", 0))
        resources = [{"uri": f"a://{page}-{n}", "name": f"r{n}"} for n in range(2)]
        return {"resources": resources, "nextCursor": str(min(page + 1, 2))}
    if method == "resources/read" and params["uri"] == "a://1":
        return {"contents": [{"uri": "a://1", "text": "one"}]}
    return None


def handle(message):
    id, method, params = message["id"], message["method"], message.get("params", {})
    capabilities = {"tools": {}, "logging": {}, "prompts": {}, "resources": {}}
    if method in lists:
        lists[method] += 1
    if IS_SILENT and method in ("prompts/list", "resources/list", "resources/subscribe"):
        return None
    info = {"name": "asking", "version": "1"}
    if method == "server/discover" and ERA == "newer":
        result = {
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "serverInfo": info,
            "ttlMs": 0,
            "cacheScope": "private",
        }
    elif method == "initialize" and ERA == "older":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "serverInfo": info,
            # What we said we can.
            "instructions": json.dumps(params["capabilities"]),
        }
    elif method == "tools/list":
        names = ["form", "url", "sample", "roots", "often", "flood", "long", "log", "wait"]
        names += ["late", "provoke", "release", "echo", "again", "endless", "greedy", "capabilities", "change", "lists"]
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
        result = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}
    elif method == "tools/call" and ERA == "older":
        result = run_older(id, params["name"], params.get("arguments", {}))
    elif method == "tools/call":
        result = run_newer(id, params)
    elif offer(method, params) is not None:
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        result = {**more, **offer(method, params)}
    elif method == "resources/read":
        return send({"id": id, "error": {"code": -32002, "message": "no such resource"}})
    else:
        return send({"id": id, "error": {"code": -32601, "message": method}})
    send({"id": id, "result": result})
    if params.get("name") == "late":
        late_is_over.set()


for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        threading.Thread(target=handle, args=(message,), daemon=True).start()
    elif "id" in message and message["id"] in waiting:
        answered, answer = waiting[message["id"]]
        answer.update(message)
        answered.set()
