"""An MCP client of the official Python kit: lists the tools of a server, makes the calls that it
reads on its standard input, and writes what came of each as a line of JSON.

usage: client.py ERA URL
       client.py ERA PROGRAM ARGUMENT...

ERA is `legacy` for the handshake of 2025-11-25, `auto` for the newest there is. A call is
{"tool", "arguments"}.
"""

import asyncio
import json
import os
import sys

from mcp import Client, MCPError, StdioServerParameters

ERA, TARGET, *ARGUMENTS = sys.argv[1:]


async def main():
    server = TARGET
    if not TARGET.startswith("http"):
        server = StdioServerParameters(command=TARGET, args=ARGUMENTS, env=dict(os.environ))
    async with Client(server, mode=ERA, read_timeout_seconds=50) as client:
        tools = await client.list_tools()
        print(json.dumps({
            "protocol": client.protocol_version,
            "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.tools],
        }), flush=True)
        for call in json.load(sys.stdin):
            try:
                result = await client.call_tool(call["tool"], call["arguments"])
                told = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            except MCPError as error:
                told = {"error": error.error.code, "message": error.error.message}
            print(json.dumps(told), flush=True)


asyncio.run(main())
