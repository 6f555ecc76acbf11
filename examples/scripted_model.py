"""A chat model that follows a script, at an address that the clients of Anthropic and OpenAI can talk to.

It stands in for a real one, so that the mailers beside it need no key: `served(script)` gives its address.
"""

import json
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Call = tuple[str, dict[str, Any]]


def served(script: Sequence[Call | str]) -> str:
    """The address of a model that makes these calls, one a turn, and ends with a text."""

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            turn = sum(message["role"] == "assistant" for message in asked.get("messages", ()))
            now = script[min(turn, len(script) - 1)]
            if "completions" in self.path:
                self._answer("application/json", json.dumps(_openai(turn, now)))
            elif asked.get("stream"):
                self._answer("text/event-stream", "".join(_events(_anthropic(turn, now, asked))))
            else:
                self._answer("application/json", json.dumps(_anthropic(turn, now, asked)))

        def do_HEAD(self) -> None:
            self._answer("application/json", "")

        do_GET = do_HEAD  # noqa: N815

        def _answer(self, kind: str, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def _openai(turn: int, now: Call | str) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": now if isinstance(now, str) else None}
    if not isinstance(now, str):
        function = {"name": now[0], "arguments": json.dumps(now[1])}
        said["tool_calls"] = [{"id": f"call-{turn}", "type": "function", "function": function}]
    reason = "stop" if isinstance(now, str) else "tool_calls"
    choice = {"index": 0, "message": said, "finish_reason": reason}
    return {"id": f"c-{turn}", "object": "chat.completion", "created": 0, "model": "script", "choices": [choice]}


def _anthropic(turn: int, now: Call | str, asked: dict[str, Any]) -> dict[str, Any]:
    content: dict[str, Any] = {"type": "text", "text": now if isinstance(now, str) else "A mailing."}
    if not isinstance(now, str) and asked.get("tools"):  # without, it is asked for a title
        content = {"type": "tool_use", "id": f"call-{turn}", "name": now[0], "input": now[1]}
    return {
        "id": f"m-{turn}", "type": "message", "role": "assistant", "model": asked["model"], "content": [content],
        "stop_reason": "tool_use" if content["type"] == "tool_use" else "end_turn", "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def _events(whole: dict[str, Any]) -> Iterator[str]:
    (block,) = whole["content"]
    if block["type"] == "text":
        begins, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        begins, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    for kind, more in (
        ("message_start", {"message": {**whole, "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": begins}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": whole["stop_reason"]}, "usage": {"output_tokens": 1}}),
        ("message_stop", {}),
    ):
        yield f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"
