"""An MCP server over stdio, made of the Python SDK, that offers what `conformance-server` does.

usage: python-server.py OFFER

OFFER is the file `offer.json`. What tools ask is left out: only answers, logs and progress are there.
"""

import asyncio
import json
import sys

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

with open(sys.argv[1], encoding="utf-8") as file:
    OFFER = json.load(file)
TOOLS = {offered["tool"]["name"]: offered for offered in OFFER["tools"] if "asks" not in offered}
PROMPTS = {offered["prompt"]["name"]: offered for offered in OFFER["prompts"] if "asks" not in offered}
RESOURCES = {offered["resource"]["uri"]: offered for offered in OFFER["resources"]}
# Between two notifications, so that they arrive one by one.
INTERVAL = 0.05


def fill(value, arguments):
    """The value with `{name}` in its texts replaced by the argument of that name."""
    if isinstance(value, dict):
        return {key: fill(item, arguments) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, arguments) for item in value]
    if isinstance(value, str):
        for name, argument in arguments.items():
            value = value.replace("{" + name + "}", argument)
    return value


def wanted(offers, name):
    if name not in offers:
        raise MCPError(code=types.INVALID_PARAMS, message=f"there is no {name}")
    return offers[name]


async def list_tools(ctx, params):
    tools = [offered["tool"] for offered in TOOLS.values()]
    return types.ListToolsResult.model_validate({"tools": tools})


async def call_tool(ctx, params):
    offered = wanted(TOOLS, params.name)
    if "answer" in offered:
        return types.CallToolResult.model_validate(offered["answer"])
    if offered["does"] == "logging":
        for text in ["Tool execution started", "Tool processing data", "Tool execution completed"]:
            await ctx.session.send_log_message("info", text, related_request_id=ctx.request_id)
            await asyncio.sleep(INTERVAL)
    if offered["does"] == "progress":
        for progress in [0, 50, 100]:
            await ctx.session.report_progress(progress, 100)
            await asyncio.sleep(INTERVAL)
    return types.CallToolResult.model_validate({"content": [{"type": "text", "text": "It is done."}]})


async def list_prompts(ctx, params):
    prompts = [offered["prompt"] for offered in PROMPTS.values()]
    return types.ListPromptsResult.model_validate({"prompts": prompts})


async def get_prompt(ctx, params):
    offered = wanted(PROMPTS, params.name)
    messages = fill(offered["messages"], params.arguments or {})
    return types.GetPromptResult.model_validate({"messages": messages})


async def list_resources(ctx, params):
    resources = [offered["resource"] for offered in RESOURCES.values()]
    return types.ListResourcesResult.model_validate({"resources": resources})


async def list_templates(ctx, params):
    return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": OFFER["templates"]})


async def read_resource(ctx, params):
    uri = str(params.uri)
    if uri in RESOURCES:
        contents = RESOURCES[uri]["contents"]
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.removeprefix("test://template/").removesuffix("/data")
        data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        contents = {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    else:
        raise MCPError(code=-32002, message="there is no such resource", data={"uri": uri})
    return types.ReadResourceResult.model_validate({"contents": [contents]})


async def complete(ctx, params):
    values = [word for word in ["paris", "park", "party"] if word.startswith(params.argument.value)]
    return types.CompleteResult.model_validate({"completion": {"values": values, "total": len(values)}})


async def nothing(ctx, params):
    return types.EmptyResult()


async def main():
    server = Server(
        "python-server",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_completion=complete,
        on_set_logging_level=nothing,
    )
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


asyncio.run(main())
