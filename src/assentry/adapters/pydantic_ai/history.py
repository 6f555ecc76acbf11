"""What is kept of a Pydantic AI agent while it waits: its message history, as JSON."""

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

from assentry.core.action import Json


def dumped(messages: Sequence[Any]) -> list[Any]:
    """Messages as JSON, with arguments by their names, so that secrets among them are known as such."""
    made: list[Any] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    for message in made:
        for part in message["parts"]:
            if part["part_kind"] == "tool-call" and isinstance(part["args"], str):
                with suppress(ValueError):
                    part["args"] = json.loads(part["args"])
    return made


def prompt_as_json(prompt: Any) -> Json:
    """A prompt, with pictures and all, as JSON."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    return dumped([ModelRequest(parts=[UserPromptPart(content=prompt)])])


def prompt_of(state: Any) -> Any:
    prompt = state.get("prompt")
    if not isinstance(prompt, list):
        return prompt
    return ModelMessagesTypeAdapter.validate_python(prompt)[0].parts[0].content  # type: ignore[union-attr]


def first_line(prompt: Any) -> str:
    text = prompt if isinstance(prompt, str) else next((each for each in prompt or () if isinstance(each, str)), "")
    return text.strip().partition("\n")[0][:200]
