"""An agent of the official library of the A2A protocol, for our client.

    sdk_server.py PORT

Its card is at the usual place; the one below /old names version 0.3 alone, and the one below
/guarded wants a header.
"""

import asyncio
import sys

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Role,
)
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse

port = int(sys.argv[1])


class Agent(AgentExecutor):
    async def execute(self, context, queue):
        text = context.get_user_input()
        if text == "message":
            await queue.enqueue_event(new_text_message("said at once", role=Role.ROLE_AGENT))
            return
        await queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(queue, context.task_id, context.context_id)
        await updater.start_work(updater.new_agent_message([Part(text="thinking")]))
        if text == "wait":
            await asyncio.sleep(3600)
        if text == "fail":
            await updater.failed(updater.new_agent_message([Part(text="it broke")]))
            return
        if text == "ask":
            await updater.requires_input(updater.new_agent_message([Part(text="which color?")]))
            return
        await asyncio.sleep(0.6)
        skill = context.message.metadata["skill"]
        await updater.add_artifact([Part(text=f"{skill}: {text}")], name="report")
        await updater.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


def card(path, version):
    return AgentCard(
        name="Somebody else's name",
        description="An agent of the official library",
        version="2.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id="research", name="Research", description="Finds out", tags=["web"])
        ],
        supported_interfaces=[
            AgentInterface(
                url=f"http://127.0.0.1:{port}{path}",
                protocol_binding="JSONRPC",
                protocol_version=version,
            )
        ],
    )


def routes(prefix, version):
    described = card(f"{prefix}/rpc", version)
    handler = DefaultRequestHandler(
        agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=described
    )
    place = f"{prefix}/.well-known/agent-card.json"
    return create_agent_card_routes(described, card_url=place) + create_jsonrpc_routes(
        handler, f"{prefix}/rpc", enable_v0_3_compat=True
    )


async def guard(request, call_next):
    if request.url.path.startswith("/guarded") and request.headers.get("x-key") != "key of ours":
        return JSONResponse({"error": "no key"}, status_code=401)
    return await call_next(request)


app = Starlette(
    routes=routes("", "1.0") + routes("/old", "0.3") + routes("/guarded", "1.0"),
    middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
)

uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
