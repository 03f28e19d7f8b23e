"""An MCP client of the official Python kit, for one test: it does what it reads on its standard
input, a list of steps as JSON, and writes what came of each as a line of JSON.

usage: client.py ERA

ERA is `legacy` for the handshake of 2025-11-25, `auto` for the newest there is.

A step is {"url", "do", ...} with `do` one of
  list                       the server, the protocol and the names of the tools
  call   tool arguments      the result, or the error of the protocol, and the progress meanwhile
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

from mcp import Client, MCPError

ERA = sys.argv[1]


async def list_tools(client, _step):
    tools = await client.list_tools()
    return {
        "server": client.server_info.title,
        "protocol": client.protocol_version,
        "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.tools],
    }


async def call(client, step):
    progress = []

    async def heard(done, total, message):
        progress.append([done, total])

    try:
        result = await client.call_tool(step["tool"], step["arguments"], progress_callback=heard)
    except MCPError as error:
        return {"error": error.error.code, "message": error.error.message}
    result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return result | {"progress": progress}


async def read(client, step):
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


async def cancel(client, step):
    running = asyncio.create_task(call(client, step))
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
    steps = {"list": list_tools, "call": call, "read": read, "cancel": cancel}
    for step in json.load(sys.stdin):
        if step["do"] == "send":
            told = send(step)
        else:
            async with Client(step["url"], mode=ERA, read_timeout_seconds=50) as client:
                told = await steps[step["do"]](client, step)
        print(json.dumps(told), flush=True)


asyncio.run(main())
