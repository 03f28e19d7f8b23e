"""Starts MCP servers that others wrote, without keys, and writes what tools they offer as JSON.

Usage: list.py NODE_MODULES PYTHON OUTPUT. Each server runs until it has answered `tools/list`; what
does not answer in a minute is an error.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time

NODE = {
    "playwright": ["@playwright/mcp/cli.js"],
    "github": ["@modelcontextprotocol/server-github/dist/index.js"],
    "gitlab": ["@modelcontextprotocol/server-gitlab/dist/index.js"],
    "slack": ["@modelcontextprotocol/server-slack/dist/index.js"],
    "google-maps": ["@modelcontextprotocol/server-google-maps/dist/index.js"],
    "brave-search": ["@modelcontextprotocol/server-brave-search/dist/index.js"],
    "notion": ["@notionhq/notion-mcp-server/bin/cli.mjs"],
    "context7": ["@upstash/context7-mcp/dist/index.js"],
    "firecrawl": ["firecrawl-mcp/dist/index.js"],
    "tavily": ["tavily-mcp/build/index.js"],
    "kubernetes": ["mcp-server-kubernetes/dist/index.js"],
    "airtable": ["airtable-mcp-server/dist/main.js"],
    "desktop-commander": ["@wonderwhy-er/desktop-commander/dist/index.js"],
    "chrome-devtools": ["chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js"],
    "everart": ["@modelcontextprotocol/server-everart/dist/index.js"],
    "postgres": [
        "@modelcontextprotocol/server-postgres/dist/index.js",
        "postgres://127.0.0.1:1/x",
    ],
    "mongodb": ["mongodb-mcp-server/dist/esm/index.js"],
    "filesystem": ["@modelcontextprotocol/server-filesystem/dist/index.js", "/tmp"],
    "memory": ["@modelcontextprotocol/server-memory/dist/index.js"],
    "sequential-thinking": ["@modelcontextprotocol/server-sequential-thinking/dist/index.js"],
    "everything": ["@modelcontextprotocol/server-everything/dist/index.js", "stdio"],
}
PYTHON = {
    "fetch": ["-m", "mcp_server_fetch"],
    "git": ["-m", "mcp_server_git"],
    "time": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
}
# They only have to be there: nothing is called.
KEYS = [
    "AIRTABLE_API_KEY",
    "BRAVE_API_KEY",
    "EVERART_API_KEY",
    "FIRECRAWL_API_KEY",
    "GITHUB_PERSONAL_ACCESS_TOKEN",
    "GITLAB_PERSONAL_ACCESS_TOKEN",
    "GOOGLE_MAPS_API_KEY",
    "NOTION_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_TEAM_ID",
    "TAVILY_API_KEY",
]
SECONDS = 60
LINE_BYTES_MAX = 8 * 1024 * 1024


def read_answer(process, number):
    end = time.monotonic() + SECONDS
    pending = b""
    while time.monotonic() < end and len(pending) < LINE_BYTES_MAX:
        if not select.select([process.stdout], [], [], 1)[0]:
            continue
        some = os.read(process.stdout.fileno(), 65536)
        if not some:
            raise RuntimeError("it closed its output")
        *lines, pending = (pending + some).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if message.get("id") == number and "method" not in message:
                return message["result"]
    raise RuntimeError("no answer in time")


def list_tools(command, home):
    environment = {"PATH": os.environ["PATH"], "HOME": home, **{key: "x" for key in KEYS}}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environment,
    )

    def send(message):
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()

    try:
        client = {"name": "toolbus", "version": "1"}
        start = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client}
        send({"id": 1, "method": "initialize", "params": start})
        read_answer(process, 1)
        send({"method": "notifications/initialized"})
        send({"id": 2, "method": "tools/list", "params": {}})
        return read_answer(process, 2)["tools"]
    finally:
        process.kill()
        process.wait()


def describe(server, tool):
    properties = (tool.get("inputSchema") or {}).get("properties") or {}
    parameters = [
        f"{name} {value.get('description', '') if isinstance(value, dict) else ''}"
        for name, value in properties.items()
    ]
    return {
        "server": server,
        "name": tool["name"],
        "description": tool.get("description", ""),
        "parameters": " ".join(parameters),
    }


def main():
    modules, python, output = sys.argv[1:]
    servers = {
        name: ["node", os.path.join(modules, script), *rest]
        for name, (script, *rest) in NODE.items()
    }
    servers |= {name: [python, *rest] for name, rest in PYTHON.items()}
    tools = []
    for name, command in servers.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
            found = list_tools(command, home)
        print(f"{name}: {len(found)} tools", file=sys.stderr)
        tools += [describe(name, tool) for tool in found]
    with open(output, "w", encoding="utf-8") as file:
        json.dump(tools, file, indent=1, ensure_ascii=False)


main()
