"""A server that speaks the protocols of Anthropic and OpenAI, and says what a script tells it to."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from tests.adapters.contract import Turn


@dataclass
class ModelServer:
    """Says the next turn of the script, by what was said before in the conversation that it gets."""

    turns: Sequence[Turn] = ()
    inner: Sequence[Turn] = ()
    """What an agent inside another says, which is told "look inside"."""
    heard: dict[str, str] = field(default_factory=dict)
    seen: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    prefix: str = "mcp__mail__"
    """What Claude puts before the names of tools that are not its own."""

    def next(self, said: int, *, inside: bool = False) -> Turn:
        turns = self.inner if inside else self.turns
        return turns[min(said, len(turns) - 1)]


def app_of(server: ModelServer) -> FastAPI:
    app = FastAPI()

    @app.post("/v1/messages")
    async def messages(request: Request) -> Response:
        asked = await request.json()
        server.seen.append(asked)
        last = ""
        for message in asked["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else []:
                if block.get("type") == "tool_result":
                    last = block["tool_use_id"]
                    server.heard[last] = _text(block.get("content"))
                elif last and "A person changed the input" in str(block.get("text")):
                    server.heard[last] += f"\n{block['text']}"
        has_tools = bool(asked.get("tools"))
        said = sum(message["role"] == "assistant" for message in asked["messages"])
        inside = bool(server.inner) and "look inside" in json.dumps(asked["messages"][0]) and said < len(server.inner)
        turn = server.next(said, inside=inside) if has_tools else Turn(text="title")
        content: list[dict[str, Any]] = [
            {"type": "tool_use", "id": each, "name": _full(name, asked, server.prefix), "input": args}
            for each, name, args in turn.calls
        ] or [{"type": "text", "text": turn.text}]
        reason = "tool_use" if turn.calls else "end_turn"
        whole = {
            "id": f"msg_{len(server.seen)}", "type": "message", "role": "assistant", "model": asked["model"], "content": content,
            "stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        if not asked.get("stream"):
            return JSONResponse(whole)
        return StreamingResponse(_anthropic_events(whole), media_type="text/event-stream")

    @app.post("/v1/messages/count_tokens")
    async def tokens() -> dict[str, int]:
        return {"input_tokens": 1}

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> Response:
        asked = await request.json()
        server.seen.append(asked)
        for message in asked["messages"]:
            if message["role"] == "tool":
                server.heard[message["tool_call_id"]] = _text(message["content"])
        turn = server.next(sum(message["role"] == "assistant" for message in asked["messages"]))
        calls = [
            {"id": each, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
            for each, name, args in turn.calls
        ]
        said = {"role": "assistant", "content": turn.text or None, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if calls else "stop"}
        return JSONResponse(
            {"id": "c", "object": "chat.completion", "created": 0, "model": asked["model"], "choices": [choice]}
        )

    @app.api_route("/{path:path}", methods=["GET", "POST", "HEAD"])
    async def other(path: str) -> dict[str, str]:
        return {"path": path}

    return app


def _full(name: str, asked: dict[str, Any], prefix: str) -> str:
    """The tool's name as whoever asks has it: Claude names the servers that tools are from."""
    known = [each["name"] for each in asked["tools"]]
    return name if not name.islower() or name in known or "Bash" not in known else f"{prefix}{name}"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content)


async def _anthropic_events(whole: dict[str, Any]) -> AsyncIterator[str]:
    def event(kind: str, **more: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"

    yield event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
            yield event("content_block_delta", index=index, delta={"type": "text_delta", "text": block["text"]})
        else:
            yield event("content_block_start", index=index, content_block={**block, "input": {}})
            said = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield event("content_block_delta", index=index, delta=said)
        yield event("content_block_stop", index=index)
    yield event(
        "message_delta", delta={"stop_reason": whole["stop_reason"], "stop_sequence": None}, usage={"output_tokens": 1}
    )
    yield event("message_stop")


SALE = [
    Turn((("t-1", "find_customers", {"country": "NO"}),)),
    Turn((("t-2", "send_mail", {"to": ["ann@example.com", "bo@example.com"], "subject": "Sale"}),)),
    Turn(text="Done."),
]
"""What the model of the pages says."""


@contextmanager
def models_of_pages(home: Path) -> Iterator[dict[str, str]]:
    """The environment in which programs of the pages find such a server."""
    made = ModelServer(SALE)
    served = uvicorn.Server(uvicorn.Config(app_of(made), port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    while not served.started:
        time.sleep(0.01)
    url = f"http://127.0.0.1:{served.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "none", "HOME": str(home), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }  # fmt: skip
    finally:
        served.should_exit = True
        thread.join(10)


@asynccontextmanager
async def model_server() -> AsyncIterator[ModelServer]:
    """Such a server, on a port of its own."""
    made = ModelServer()
    served = uvicorn.Server(uvicorn.Config(app_of(made), port=0, log_level="error", lifespan="off"))
    task = asyncio.create_task(served.serve())
    while not served.started:
        await asyncio.sleep(0.01)
    made.url = f"http://127.0.0.1:{served.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        served.should_exit = True
        await task
