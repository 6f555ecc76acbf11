"""Chat models of any provider, through LiteLLM, as the plain callable that `ModelAssessor` asks."""

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from assentry.extras import needs


def chat_model(model: str, **settings: Any) -> Callable[[list[dict[str, str]]], Awaitable[str]]:
    """A callable that takes messages and returns the text that `model` answers.

    `model` is a name as LiteLLM writes it (`openai/gpt-5-mini`, `ollama/llama3.2`); `settings` go to every call
    (`api_base`, `api_key`, `temperature`, `max_tokens`).
    """
    with needs("models", "assentry.adapters.chat"):
        litellm: Any = import_module("litellm")

    async def complete(messages: list[dict[str, str]]) -> str:
        answer = await litellm.acompletion(model=model, messages=messages, **settings)
        return answer.choices[0].message.content or ""

    return complete
