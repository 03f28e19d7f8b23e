"""Checks definitions of tools, a JSON object a line with the members `dialect` and `definition`, by
what the vendors publish, and prints what is wrong with them, a line each."""

import copy
import json
import re
import sys

import mcp_types
from anthropic.types import ToolParam
from anthropic.types.tool_param import InputSchemaTyped
from anthropic.types.tool_search_tool_bm25_20251119_param import ToolSearchToolBm25_20251119Param
from mcp_types import _v2025_11_25 as mcp_2025, _v2026_07_28 as mcp_2026
from openai.lib._pydantic import _ensure_strict_json_schema
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from openai.types.responses.tool_search_tool_param import ToolSearchToolParam
from pydantic import TypeAdapter


def reader(type_, **how):
    adapter = TypeAdapter(type_)
    return lambda value: adapter.validate_python(value, strict=True, **how)


chat = reader(ChatCompletionFunctionToolParam, extra="forbid")
responses = reader(FunctionToolParam, extra="forbid")
responses_search = reader(ToolSearchToolParam, extra="forbid")
anthropic = reader(ToolParam, extra="forbid")
anthropic_schema = reader(InputSchemaTyped)
anthropic_search = reader(ToolSearchToolBm25_20251119Param, extra="forbid")
mcp = [reader(mcp_types.Tool, extra="forbid"), reader(mcp_2025.Tool), reader(mcp_2026.Tool)]


def check_name(name, longest=64):
    assert re.fullmatch("[a-zA-Z0-9_-]{1,%d}" % longest, name), name


def check_openai(function):
    check_name(function["name"])
    assert len(function.get("description", "")) <= 1024, "description"
    schema = function["parameters"]
    assert schema["type"] == "object" and isinstance(schema["properties"], dict), schema
    assert not {"oneOf", "anyOf", "allOf", "enum", "not"} & schema.keys(), schema
    if function["strict"]:
        # What their own client makes of it is the same: nothing was missing.
        made = copy.deepcopy(schema)
        assert _ensure_strict_json_schema(made, path=(), root=made) == schema, schema


def check(dialect, definition):
    if dialect == "OpenAiChat":
        chat(definition)
        check_openai(definition["function"])
    elif dialect == "OpenAiResponses":
        if definition["type"] == "tool_search":
            responses_search(definition)
        else:
            responses(definition)
            check_openai(definition)
    elif dialect == "Anthropic":
        if "type" in definition:
            anthropic_search(definition)
            return
        anthropic(definition)
        check_name(definition["name"])
        schema = definition["input_schema"]
        anthropic_schema(schema)
        assert not {"oneOf", "anyOf", "allOf"} & schema.keys(), schema
        for name in schema["properties"]:
            assert re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name), name
    elif dialect == "Mcp":
        for read in mcp:
            read(definition)
        assert re.fullmatch("[a-zA-Z0-9_.-]{1,128}", definition["name"]), definition["name"]
    else:
        raise AssertionError(dialect)


count = 0
for line in sys.stdin:
    given = json.loads(line)
    count += 1
    try:
        check(given["dialect"], given["definition"])
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " ")[:2000], line.strip()[:2000])
print("checked", count)
