"""Checks what was sent and what was streamed, a JSON object a line with the members `kind` and
`value`, by the types that the vendors publish, and prints what is wrong, a line each."""

import json
import sys

from anthropic.types.message_create_params import MessageCreateParamsStreaming as AnthropicRequest
from anthropic.types.raw_message_stream_event import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter


def drain(value):
    """Reads what is checked only while it is read."""
    if isinstance(value, dict):
        for member in value.values():
            drain(member)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for item in value:
            drain(item)


def reader(type_, **how):
    adapter = TypeAdapter(type_)
    return lambda value: drain(adapter.validate_python(value, strict=True, **how))


readers = {
    "openai": reader(CompletionCreateParamsStreaming, extra="forbid"),
    "anthropic": reader(AnthropicRequest, extra="forbid"),
    "openai_event": reader(ChatCompletionChunk),
    "anthropic_event": reader(RawMessageStreamEvent),
}


def check_openai(request):
    known, open_ids = set(), []
    for message in request["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_ids, "a result without a call"
            open_ids.remove(message["tool_call_id"])
            continue
        assert not open_ids, "a call without a result"
        if message["role"] == "assistant":
            assert message["content"] or message.get("tool_calls"), "an empty message"
        open_ids = [call["id"] for call in message.get("tool_calls", [])]
        assert not known & set(open_ids) and len(set(open_ids)) == len(open_ids), "an id twice"
        known |= set(open_ids)
        for call in message.get("tool_calls", []):
            assert isinstance(json.loads(call["function"]["arguments"]), dict), "arguments"


def check_anthropic(request):
    """What the API refuses beside its types, by its documentation."""
    known, open_ids, marks = set(), set(), 0
    blocks = [*request.get("tools", []), *request.get("system", [])]
    for message in request["messages"]:
        assert message["content"], "an empty message"
        blocks += message["content"]
        if message["role"] == "user":
            results = {b["tool_use_id"] for b in message["content"] if b["type"] == "tool_result"}
            assert results == open_ids, "calls and results differ"
            open_ids = set()
        else:
            ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            assert not known & set(ids) and len(set(ids)) == len(ids), "an id twice"
            known |= set(ids)
            open_ids = set(ids)
    for block in blocks:
        marks += "cache_control" in block
        assert block.get("type") != "text" or block["text"].strip(), "an empty text"
        assert not ("cache_control" in block and block.get("defer_loading")), "a deferred mark"
    assert marks <= 4, "too many marks"
    assert request["max_tokens"] >= 1


count = 0
for line in sys.stdin:
    given = json.loads(line)
    count += 1
    try:
        readers[given["kind"]](given["value"])
        if given["kind"] == "openai":
            check_openai(given["value"])
        elif given["kind"] == "anthropic":
            check_anthropic(given["value"])
    except Exception as error:
        print(f"{type(error).__name__}: {error}".replace("\n", " ")[:2000], line.strip()[:2000])
print("checked", count)
