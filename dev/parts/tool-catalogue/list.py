"""Starts MCP servers that others wrote, without keys, and writes what tools they offer as JSON.

Usage: list.py NODE_MODULES PYTHON OLD_PYTHON OUTPUT, where OLD_PYTHON has servers that need a
library of MCP older than 2. A few servers run at once, each until it has answered `tools/list`;
what does not answer in two minutes is an error that names the server.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

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
    "aws-kb-retrieval": ["@modelcontextprotocol/server-aws-kb-retrieval/dist/index.js"],
    "puppeteer": ["@modelcontextprotocol/server-puppeteer/dist/index.js"],
    "sentry": ["@sentry/mcp-server/dist/index.js"],
    "hubspot": ["@hubspot/mcp-server/dist/index.js"],
    "exa": ["exa-mcp-server/dist/stdio.cjs"],
    "circleci": ["@circleci/mcp-server-circleci/dist/index.js"],
    "postman": ["@postman/postman-mcp-server/dist/src/index.js"],
    "lara-translate": ["@translated/lara-mcp/dist/index.js"],
    "jira": ["@aashari/mcp-server-atlassian-jira/dist/index.js"],
    "asana": ["@roychri/mcp-server-asana/dist/index.js"],
    "bitbucket": ["@aashari/mcp-server-atlassian-bitbucket/dist/index.js"],
    "discord": ["mcp-discord/build/index.js"],
    "pinecone": ["@pinecone-database/mcp/dist/index.js"],
    "chart": ["@antv/mcp-server-chart/build/index.js"],
    "code-runner": ["mcp-server-code-runner/dist/cli.js"],
    "youtube-transcript": ["@kimtaeyoon83/mcp-server-youtube-transcript/dist/index.js"],
    "pubmed": ["@cyanheads/pubmed-mcp-server/dist/index.js"],
    "amap": ["@amap/amap-maps-mcp-server/build/index.js"],
    "baidu-map": ["@baidumap/mcp-server-baidu-map/dist/index.js"],
    "nx": ["nx-mcp/main.js"],
    "mui": ["@mui/mcp/stdio.js"],
    "airbnb": ["@openbnb/mcp-server-airbnb/dist/index.js"],
    "variflight": ["@variflight-ai/variflight-mcp/dist/index.js"],
    "xero": ["@xeroapi/xero-mcp-server/dist/index.js"],
    "bitwarden": ["@bitwarden/mcp-server/dist/index.js"],
    "resend": ["resend-mcp/dist/index.js"],
    "perplexity": ["@perplexity-ai/mcp-server/dist/index.js"],
    "webflow": ["webflow-mcp-server/dist/index.js"],
    "trello": ["@delorenj/mcp-server-trello/build/index.js"],
    "google-search": ["@adenot/mcp-google-search/build/index.js"],
}
PYTHON = {
    "fetch": ["-m", "mcp_server_fetch"],
    "git": ["-m", "mcp_server_git"],
    "time": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
}
# Programs beside the interpreter.
OLD_PYTHON = {
    "ableton": ["ableton-mcp"],
    "calculator": ["mcp-server-calculator"],
    "duckduckgo": ["duckduckgo-mcp-server"],
    "excel": ["excel-mcp-server", "stdio"],
    "mysql": ["mysql_mcp_server"],
    "obsidian": ["mcp-obsidian"],
    "powerpoint": ["ppt_mcp_server"],
    "reddit": ["mcp-server-reddit"],
    "redis": ["redis-mcp-server"],
    "sqlite": ["mcp-server-sqlite", "--db-path", "data.db"],
    "text-editor": ["mcp-text-editor"],
    "unit-converter": ["unit-converter-mcp"],
    "weather": ["mcp_weather_server"],
    "word": ["word_mcp_server"],
}
# They only have to be there: nothing is called.
KEYS = [
    "AIRTABLE_API_KEY",
    "AMAP_MAPS_API_KEY",
    "ASANA_ACCESS_TOKEN",
    "ATLASSIAN_API_TOKEN",
    "ATLASSIAN_BITBUCKET_APP_PASSWORD",
    "ATLASSIAN_BITBUCKET_USERNAME",
    "ATLASSIAN_SITE_NAME",
    "ATLASSIAN_USER_EMAIL",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "BAIDU_MAP_API_KEY",
    "BRAVE_API_KEY",
    "BW_SESSION",
    "CIRCLECI_TOKEN",
    "DISCORD_TOKEN",
    "EVERART_API_KEY",
    "EXA_API_KEY",
    "FIRECRAWL_API_KEY",
    "GITHUB_PERSONAL_ACCESS_TOKEN",
    "GITLAB_PERSONAL_ACCESS_TOKEN",
    "GOOGLE_API_KEY",
    "GOOGLE_MAPS_API_KEY",
    "GOOGLE_SEARCH_ENGINE_ID",
    "LARA_ACCESS_KEY_ID",
    "LARA_ACCESS_KEY_SECRET",
    "MYSQL_DATABASE",
    "MYSQL_PASSWORD",
    "MYSQL_USER",
    "NOTION_TOKEN",
    "OBSIDIAN_API_KEY",
    "PERPLEXITY_API_KEY",
    "PINECONE_API_KEY",
    "POSTMAN_API_KEY",
    "PRIVATE_APP_ACCESS_TOKEN",
    "RESEND_API_KEY",
    "SENTRY_ACCESS_TOKEN",
    "SLACK_BOT_TOKEN",
    "SLACK_TEAM_ID",
    "TAVILY_API_KEY",
    "TRELLO_API_KEY",
    "TRELLO_TOKEN",
    "VARIFLIGHT_API_KEY",
    "WEBFLOW_TOKEN",
    "XERO_CLIENT_ID",
    "XERO_CLIENT_SECRET",
    "X_VARIFLIGHT_KEY",
]
# Each waits for nothing but its own imports, and several share a core.
SECONDS = 120
AT_ONCE = 4
LINE_BYTES_MAX = 8 * 1024 * 1024
TOOLS_MAX = 1000


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
        "description": tool.get("description") or "",
        "parameters": " ".join(parameters),
    }


def list_server(name, command):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        try:
            found = list_tools(command, home)
        except Exception as error:
            raise RuntimeError(f"{name} listed no tools: {error!r}") from error
    print(f"{name}: {len(found)} tools", file=sys.stderr)
    if not found or len(found) > TOOLS_MAX:
        raise RuntimeError(f"{name} listed {len(found)} tools")
    return [describe(name, tool) for tool in found]


def main():
    modules, python, old_python, output = sys.argv[1:]
    servers = {
        name: ["node", os.path.join(modules, script), *rest]
        for name, (script, *rest) in NODE.items()
    }
    servers |= {name: [python, *rest] for name, rest in PYTHON.items()}
    programs = os.path.dirname(old_python)
    servers |= {
        name: [old_python, os.path.join(programs, program), *rest]
        for name, (program, *rest) in OLD_PYTHON.items()
    }

    # In the order of the servers, so that the file does not depend on which is quicker.
    with ThreadPoolExecutor(AT_ONCE) as executor:
        lists = list(executor.map(list_server, servers.keys(), servers.values()))
    tools = [tool for listed in lists for tool in listed]
    with open(output, "w", encoding="utf-8") as file:
        json.dump(tools, file, indent=1, ensure_ascii=False)


main()
