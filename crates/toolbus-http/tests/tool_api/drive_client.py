"""Drives every address of the interface to tools with a client that was generated from its
description: drive_client.py URL DAMAGED_URL ADMIN_TOKEN CLIENT_TOKEN.

The server at DAMAGED_URL has a store that cannot be read. It prints which operations were called,
and which of them were answered with each code."""

import json
import sys
import time

from toolbus_client import AuthenticatedClient, Client
from toolbus_client.api.health import health
from toolbus_client.api.jobs import cancel_job, create_job, delete_job, read_job
from toolbus_client.api.keys import create_key, list_keys, revoke_key
from toolbus_client.api.servers import describe_server, list_servers
from toolbus_client.api.tools import (
    describe_tool,
    execute_tool,
    list_tools,
    retrieve_tools,
    retrieve_tools_by_query,
)
from toolbus_client.models import ExecuteBody, NewKeyBody, RetrieveBody

URL, DAMAGED_URL, ADMIN, CLIENT = sys.argv[1:]
admin = AuthenticatedClient(base_url=URL, token=ADMIN)
client = AuthenticatedClient(base_url=URL, token=CLIENT)
operations = set()
codes = {}


def call(operation, status, code=None, /, **arguments):
    """Calls an operation, and gives the data that the client has read of it."""
    return check(operation, status, code, operation.sync_detailed(**arguments))


def call_with_content(operation, status, code, client, content):
    """Sends what no model of the client can be: its own connection carries it to the operation's
    address, and its own parser reads the answer."""
    request = operation._get_kwargs(body=body(""))
    del request["json"]
    response = client.get_httpx_client().request(content=content, **request)
    return check(operation, status, code, operation._build_response(client=client, response=response))


def check(operation, status, code, answer):
    """Checks an answer as the client has read it."""
    name = operation.__name__.rsplit(".", 1)[-1]
    operations.add(name)
    body = json.loads(answer.content)
    assert answer.status_code == status, (operation.__name__, answer)
    assert answer.parsed is not None, (operation.__name__, answer)
    assert answer.headers["x-ratelimit-limit"], answer
    if code is None:
        assert answer.parsed.success is True, answer
        return answer.parsed.data
    assert body["error"]["code"] == code, body
    assert answer.parsed.error.code.value == code, answer
    codes.setdefault(code, set()).add(name)
    return answer.parsed.error


def body(tool, params=None, **more):
    return ExecuteBody.from_dict({"tool_name": tool, "params": params or {}, **more})


def until_ended(client, job):
    for _ in range(600):
        data = call(read_job, 200, id=job, client=client)
        if data.status.value not in ("queued", "running"):
            return data
        time.sleep(0.05)
    raise AssertionError("the job does not end")


assert call(health, 200, client=Client(base_url=URL)).status == "degraded"
call(retrieve_tools, 200, client=client, body=RetrieveBody(query="say it again", top_k=3))
call(retrieve_tools, 400, "INVALID_REQUEST", client=client, body=RetrieveBody(query="x", top_k=51))
call(retrieve_tools_by_query, 200, client=client, query="say it again", min_score=0.5)
call(retrieve_tools_by_query, 400, "INVALID_REQUEST", client=client, query="")

page = call(list_tools, 200, client=client, limit=2)
assert len(page.items) == 2 and page.pagination.has_more
call(list_tools, 404, "SERVER_NOT_FOUND", client=client, server="slack")
assert call(describe_tool, 200, name="echo", client=client).server == "test"
call(describe_tool, 404, "TOOL_NOT_FOUND", name="nothing", client=client)
assert len(call(list_servers, 200, client=client).servers) == 4
assert call(describe_server, 200, name="github", client=client).tool_count == 1
call(describe_server, 404, "SERVER_NOT_FOUND", name="slack", client=client)

assert call(execute_tool, 200, client=client, body=body("echo", {"text": "hi"})).result == "hi"
for tool, params, status, code in [
    ("create", {}, 400, "INVALID_REQUEST"),
    ("echo", {"times": "x"}, 400, "INVALID_ARGUMENTS"),
    ("slack/send", {}, 400, "TOOL_NOT_INSTALLED"),
    ("forbidden", {"text": "x"}, 403, "FORBIDDEN"),
    ("nothing", {}, 404, "TOOL_NOT_FOUND"),
    ("fail", {}, 500, "EXECUTION_ERROR"),
    ("gone", {}, 503, "SERVICE_UNAVAILABLE"),
]:
    call(execute_tool, status, code, client=client, body=body(tool, params))
call_with_content(execute_tool, 400, "INVALID_JSON", client, b'{"tool_name": "echo", "params"')
call_with_content(execute_tool, 400, "MISSING_REQUIRED_FIELD", client, b'{"params": {}}')
call(execute_tool, 504, "EXECUTION_TIMEOUT", client=client, body=body("sleep", timeout=1000))
for tool, code in [("limited", "RATE_LIMITED"), ("monthly", "QUOTA_EXCEEDED")]:
    call(execute_tool, 200, client=client, body=body(tool, {"text": "1"}))
    error = call(execute_tool, 429, code, client=client, body=body(tool, {"text": "2"}))
    assert error.retry_after >= 1, error

job = call(create_job, 202, client=client, body=body("echo", {"text": "later"})).job_id
ended = until_ended(client, job)
assert ended.status.value == "completed" and ended.result.result == "later", ended
call(delete_job, 400, "INVALID_REQUEST", id=job, client=client)
call(cancel_job, 400, "INVALID_REQUEST", id=job, client=client)
call(read_job, 404, "JOB_NOT_FOUND", id="nothing", client=client)
job = call(execute_tool, 202, client=client, body=body("fail", **{"async": True})).job_id
assert until_ended(client, job).error.code.value == "EXECUTION_ERROR"

issued = call(create_key, 201, client=admin, body=NewKeyBody(name="generated", role="reader"))
reader = AuthenticatedClient(base_url=URL, token=issued.key)
call(list_tools, 200, client=reader)
call(execute_tool, 403, "FORBIDDEN", client=reader, body=body("echo", {"text": "x"}))
call(list_keys, 403, "FORBIDDEN", client=client)
assert call(list_keys, 200, client=admin).items[0].key == issued.key[:8] + "…"
call(create_key, 400, "INVALID_REQUEST", client=admin, body=NewKeyBody(name="a b"))
call(revoke_key, 200, id=issued.id, client=admin)
call(list_tools, 401, "INVALID_TOKEN", client=reader)
call(list_tools, 401, "UNAUTHORIZED", client=Client(base_url=URL))

damaged = AuthenticatedClient(base_url=DAMAGED_URL, token=CLIENT)
call(list_tools, 500, "INTERNAL_ERROR", client=damaged)
call(execute_tool, 500, "INTERNAL_ERROR", client=damaged, body=body("echo", {"text": "x"}))

print(json.dumps({
    "operations": sorted(operations),
    "codes": {code: sorted(names) for code, names in sorted(codes.items())},
}))
