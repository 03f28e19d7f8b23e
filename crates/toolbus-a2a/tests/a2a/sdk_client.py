"""The official client of the A2A protocol against our server.

    sdk_client.py URL TOKEN VERSION     prints what was seen, as JSON
"""

import asyncio
import json
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from google.protobuf import struct_pb2

url, token, version = sys.argv[1:4]


def request(text, message_id=None, **more):
    parts = more.pop("parts", None) or [Part(text=text)]
    message = Message(
        message_id=message_id or str(uuid.uuid4()), role=Role.ROLE_USER, parts=parts, **more
    )
    return SendMessageRequest(message=message)


def describe(task):
    said = [part.text or "data" for artifact in task.artifacts for part in artifact.parts]
    return {
        "state": TaskState.Name(task.status.state),
        "artifacts": said,
        "message": [part.text for part in task.status.message.parts],
    }


def describe_event(event):
    kind = event.WhichOneof("payload")
    if kind == "task":
        return "task"
    if kind == "status_update":
        status = event.status_update.status
        said = "".join(part.text for part in status.message.parts)
        return f"{TaskState.Name(status.state)} {said}".strip()
    return "artifact " + event.artifact_update.artifact.parts[0].text


async def first(events):
    async for event in events:
        return event.task
    raise AssertionError("nothing came")


async def error_of(call):
    try:
        await call
    except Exception as error:
        return type(error).__name__
    return "no error"


async def collect(events):
    return [event async for event in events]


async def until(client, task_id, states):
    for _ in range(200):
        task = await client.get_task(GetTaskRequest(id=task_id))
        if TaskState.Name(task.status.state) in states:
            return task
        await asyncio.sleep(0.05)
    raise AssertionError("it does not end")


async def main():
    seen = {}
    http = httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30)
    card = await A2ACardResolver(http, url).get_agent_card()
    seen["card"] = [card.name, [skill.id for skill in card.skills], list(card.security_schemes)]
    kept = [one for one in card.supported_interfaces if one.protocol_version == version]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(kept)

    def client(**config):
        return ClientFactory(ClientConfig(httpx_client=http, **config)).create(card)

    streaming, blocking = client(), client(streaming=False)
    polling = client(streaming=False, polling=True)

    events = await collect(streaming.send_message(request("slow hello")))
    # That it is begun may be seen before it says so.
    seen["stream"] = [
        event for event in map(describe_event, events) if event != "TASK_STATE_WORKING"
    ]

    seen["blocking"] = describe(await first(blocking.send_message(request("hello"))))
    seen["failed"] = describe(await first(blocking.send_message(request("fail"))))
    data = struct_pb2.Value()
    data.struct_value.update({"answer": 42})
    parts = [Part(text="data"), Part(data=data)]
    seen["data"] = describe(await first(blocking.send_message(request("", parts=parts))))

    again = str(uuid.uuid4())
    one = await first(blocking.send_message(request("once", again)))
    other = await first(blocking.send_message(request("once", again)))
    seen["same message"] = one.id == other.id and one.context_id == other.context_id

    task = await first(polling.send_message(request("slow later")))
    seen["polled before"] = TaskState.Name(task.status.state) in (
        "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING",
    )
    seen["polled"] = describe(await until(polling, task.id, ["TASK_STATE_COMPLETED"]))

    task = await first(polling.send_message(request("wait")))
    await until(polling, task.id, ["TASK_STATE_WORKING"])
    heard = []

    async def follow():
        async for event in streaming.subscribe(SubscribeToTaskRequest(id=task.id)):
            heard.append(describe_event(event))

    following = asyncio.create_task(follow())
    # The task, and what it says: then it is listened to.
    while len(heard) < 2 and not following.done():
        await asyncio.sleep(0.02)
    cancelled = await blocking.cancel_task(CancelTaskRequest(id=task.id))
    seen["cancelled"] = describe(cancelled)
    await following
    seen["subscribed"] = heard
    seen["errors"] = {
        "cancel again": await error_of(blocking.cancel_task(CancelTaskRequest(id=task.id))),
        "subscribe": await error_of(
            collect(streaming.subscribe(SubscribeToTaskRequest(id=task.id)))
        ),
        "unknown": await error_of(blocking.get_task(GetTaskRequest(id="nothing"))),
        "push": await error_of(
            blocking.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task.id, url="https://example.com")
            )
        ),
        "file": await error_of(
            collect(blocking.send_message(
                request("", parts=[Part(url="https://example.com/x", filename="x")])
            ))
        ),
        "ended": await error_of(
            collect(blocking.send_message(request("more", task_id=task.id)))
        ),
    }

    asked = await first(blocking.send_message(request("ask")))
    seen["asked"] = describe(asked)
    answer = request("blue", task_id=asked.id, context_id=asked.context_id)
    answered = await first(blocking.send_message(answer))
    seen["answered"] = describe(answered)
    seen["answered the same"] = answered.id == asked.id
    wrong = request("red", task_id=asked.id, context_id="another")
    seen["errors"]["context"] = await error_of(collect(blocking.send_message(wrong)))

    if version == "1.0":
        listed = await blocking.list_tasks(ListTasksRequest(page_size=3))
        rest = await blocking.list_tasks(
            ListTasksRequest(page_size=100, page_token=listed.next_page_token)
        )
        ended = await blocking.list_tasks(
            ListTasksRequest(status=TaskState.TASK_STATE_CANCELED, include_artifacts=True)
        )
        seen["listed"] = [
            len(listed.tasks), listed.total_size == len(listed.tasks) + len(rest.tasks),
            rest.next_page_token, [one.id == task.id for one in ended.tasks],
        ]
    print(json.dumps(seen))


asyncio.run(main())
