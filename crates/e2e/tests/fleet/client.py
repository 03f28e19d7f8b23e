"""An MCP client of the official Python kit, for one test: it does what it reads on its standard
input, a list of steps as JSON, and writes what came of each as a line of JSON.

usage: client.py ERA

ERA is `legacy` for the handshake of 2025-11-25, `auto` for the newest there is.

A step is {"url", "do", ...} with `do` one of
  list                       the server, the protocol and the names of the tools
  call   tool arguments [answers meta]
                             the result, or the error of the protocol, the progress and the log
                             meanwhile, and what was asked. Asked questions are answered with
                             {"form", "word", "roots"}, those of them that are there
  leave  tool arguments [answers]
                             what the client is asked by the call, which it does not answer
  back   tool arguments responses state [answers]
                             the result, or the code of the error and its reason, of a client that
                             comes back to a call with these answers
  complete prompt argument decided
                             what is proposed for an argument, or the code of the error
  hear   uri tools expected [file]
                             subscribes to the resource and to all lists, makes the file, calls the
                             tools, and tells what has changed as soon as it is what is expected
  cancel tool arguments file the same, given up as soon as the file is there
  read   prompt arguments uri
                             the prompts, the prompt, the resources, the templates and the resource;
                             what is refused is the code of its error
  send   headers             the HTTP status of a request with these headers
"""

import asyncio
import http.client
import json
import os
import sys
import urllib.parse

import mcp_types as types
from mcp import Client, MCPError

ERA = sys.argv[1]


class Conversation:
    """What a client answers, and what it was told and asked."""

    def __init__(self, step):
        self.answers = step.get("answers", {})
        self.asked, self.log, self.heard = [], [], asyncio.Queue()

    def callbacks(self):
        known = {"form": self.form, "word": self.word, "roots": self.roots}
        names = {"form": "elicitation", "word": "sampling", "roots": "list_roots"}
        answers = {f"{names[name]}_callback": known[name] for name in self.answers}
        hears = {"logging_callback": self.hear, "message_handler": self.notice}
        return answers | hears | {"log_level": "info"}

    async def notice(self, message):
        if not isinstance(message, Exception):
            await self.heard.put(message.model_dump(mode="json", by_alias=True))

    async def form(self, _context, params):
        self.asked.append(params.message)
        return types.ElicitResult(action="accept", content=self.answers["form"])

    async def word(self, _context, params):
        self.asked.append(params.messages[0].content.text)
        said = types.TextContent(type="text", text=self.answers["word"])
        return types.CreateMessageResult(role="assistant", content=said, model="m")

    async def roots(self, _context):
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in self.answers["roots"]])

    async def hear(self, params):
        self.log.append([params.level, params.data])


async def list_tools(client, _step, _conversation):
    tools = await client.list_tools()
    return {
        "server": client.server_info.title,
        "protocol": client.protocol_version,
        "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.tools],
    }


async def call(client, step, conversation):
    progress = []

    async def heard(done, total, message):
        progress.append([done, total])

    try:
        result = await client.call_tool(
            step["tool"], step["arguments"], progress_callback=heard, meta=step.get("meta")
        )
    except MCPError as error:
        return {"error": error.error.code, "message": error.error.message}
    result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    told = {"progress": progress, "log": conversation.log, "asked": conversation.asked}
    return result | told


async def leave(client, step, _conversation):
    tool, arguments = step["tool"], step["arguments"]
    asked = await client.session.call_tool(tool, arguments, allow_input_required=True)
    return asked.model_dump(mode="json", by_alias=True, exclude_none=True)


async def back(client, step, _conversation):
    carried = {"input_responses": step["responses"], "request_state": step["state"]}
    tool, arguments = step["tool"], step["arguments"]
    try:
        result = await client.session.call_tool(
            tool, arguments, allow_input_required=True, **carried
        )
    except MCPError as error:
        return {"error": error.error.code, "reason": (error.error.data or {}).get("reason")}
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def read(client, step, _conversation):
    wanted = {
        "prompts": client.list_prompts(),
        "prompt": client.get_prompt(step["prompt"], step["arguments"]),
        "resources": client.list_resources(),
        "templates": client.list_resource_templates(),
        "resource": client.read_resource(step["uri"]),
    }
    told = {}
    for name, asked in wanted.items():
        try:
            result = await asked
            told[name] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        except MCPError as error:
            told[name] = error.error.code
    return told


async def complete(client, step, _conversation):
    prompt = types.PromptReference(name=step["prompt"])
    try:
        result = await client.complete(prompt, step["argument"], step["decided"] or None)
    except MCPError as error:
        return error.error.code
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def named(notification):
    """What has changed: a list, or a resource."""
    if notification["method"] == "notifications/resources/updated":
        return notification["params"]["uri"]
    parts = notification["method"].split("/")
    return parts[1] if parts[-1] == "list_changed" else None


async def hear(client, step, conversation):
    async def trigger():
        if "file" in step:
            open(step["file"], "w").close()
        for tool in step["tools"]:
            await client.call_tool(tool, {})

    heard = set()
    if ERA == "legacy":
        await client.subscribe_resource(step["uri"])
        await trigger()
        while not heard.issuperset(step["expected"]):
            heard.add(named(await conversation.heard.get()))
        return sorted(heard - {None})
    lists = {f"{name}_list_changed": True for name in ("tools", "prompts", "resources")}
    async with client.listen(resource_subscriptions=[step["uri"]], **lists) as subscription:
        # It is told once for the time before it held.
        await anext(aiter(subscription))
        await trigger()
        async for event in subscription:
            name = getattr(event, "uri", None) or type(event).__name__.lower()
            heard.add(name.removesuffix("listchanged"))
            if heard.issuperset(step["expected"]):
                break
    return sorted(heard)


async def cancel(client, step, conversation):
    running = asyncio.create_task(call(client, step, conversation))
    while not os.path.exists(step["file"]):
        assert not running.done(), running.result()
        await asyncio.sleep(0.02)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        pass
    return "cancelled"


def send(step):
    url = urllib.parse.urlsplit(step["url"])
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    headers = {"Host": url.netloc, "Content-Type": "application/json"} | step["headers"]
    headers["Accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }}
    connection.putrequest("POST", url.path, skip_host=True)
    body = json.dumps(body).encode()
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    return connection.getresponse().status


async def main():
    steps = {
        "list": list_tools,
        "call": call,
        "leave": leave,
        "back": back,
        "complete": complete,
        "hear": hear,
        "read": read,
        "cancel": cancel,
    }
    for step in json.load(sys.stdin):
        if step["do"] == "send":
            told = send(step)
        else:
            conversation = Conversation(step)
            options = {"mode": ERA, "read_timeout_seconds": 50} | conversation.callbacks()
            async with Client(step["url"], **options) as client:
                told = await steps[step["do"]](client, step, conversation)
        print(json.dumps(told), flush=True)


asyncio.run(main())
