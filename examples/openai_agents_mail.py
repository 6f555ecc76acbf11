"""A mailer made with the OpenAI Agents SDK. It parks where a person has to decide, and any worker goes on with it.

    python examples/openai_agents_mail.py
    assentry inbox
    assentry worker openai_agents_mail:gate     # with examples/ on PYTHONPATH

The model follows a script, so that it needs no key.
"""

import asyncio
import json
from typing import Any

from agents import Agent, function_tool, set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import assentry
from assentry.adapters.openai_agents import attach

set_tracing_disabled(True)


@function_tool
async def find_customers(country: str) -> list[str]:
    """Finds customers."""
    return ["ann@example.com", "bo@example.com"] if country == "NO" else []


@function_tool
async def send_mail(to: list[str], subject: str) -> str:
    """Sends a mail."""
    print("mailed", ", ".join(to), "about", subject, flush=True)
    return "sent"


def call(number: str, name: str, **args: Any) -> Any:
    return ResponseFunctionToolCall(call_id=number, name=name, arguments=json.dumps(args), type="function_call")


def says(text: str) -> Any:
    part = ResponseOutputText(text=text, annotations=[], type="output_text")
    return ResponseOutputMessage(id="m", content=[part], role="assistant", status="completed", type="message")


SCRIPT = [
    call("1", "find_customers", country="NO"),
    call("2", "send_mail", to=["ann@example.com", "bo@example.com"], subject="Sale"),
    says("Done."),
]


def turn(asked: Any) -> list[Any]:
    said = [] if isinstance(asked.input, str) else asked.input
    return [SCRIPT[sum(item.get("type") == "function_call" for item in said)]]


gate = assentry.open(agent="mailer")
model = ScriptedModel([ModelStep.respond(turn) for _ in SCRIPT])
agent = attach(gate, Agent("openai-agents-mail", model=model, tools=[find_customers, send_mail]))


async def main() -> None:
    try:
        print((await agent.run("Tell our customers in Norway about the sale", key="sale")).final_output)
    except assentry.Parked as parked:
        print(f"parked: {parked.says}")
    await gate.close()


if __name__ == "__main__":
    asyncio.run(main())
