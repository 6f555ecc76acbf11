"""A mailer that is a loop around Anthropic's client. It parks where a person has to decide; any worker goes on with it.

    python examples/anthropic_mail.py
    assentry inbox
    assentry worker anthropic_mail:gate     # with examples/ on PYTHONPATH

The model follows a script, so that it needs no key.
"""

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

import assentry
from assentry.adapters.toolbox import Toolbox
from scripted_model import served

MAIL = {"to": ["ann@example.com", "bo@example.com"], "subject": "Sale"}
SCRIPT = [("find_customers", {"country": "NO"}), ("send_mail", MAIL), "Done."]


def find_customers(country: str) -> list[str]:
    """Finds customers."""
    return ["ann@example.com", "bo@example.com"] if country == "NO" else []


def send_mail(to: list[str], subject: str) -> str:
    """Sends a mail."""
    print("mailed", ", ".join(to), "about", subject, flush=True)
    return "sent"


gate = assentry.open(agent="mailer")
tools = Toolbox(gate, [find_customers, send_mail])
client = AsyncAnthropic(base_url=served(SCRIPT), api_key="none")  # with AsyncAnthropic() it is Claude


@gate.host("anthropic-mail")
async def mailer(messages: Any, _: Any) -> str:
    """The whole agent: `messages` is all that it needs to go on."""
    while True:
        if messages[-1]["role"] == "user":
            said = await client.messages.create(
                model="claude-sonnet-5", max_tokens=2000, messages=messages, tools=tools.anthropic
            )  # fmt: skip
            messages.append({"role": "assistant", "content": [block.model_dump() for block in said.content]})
            assentry.current_run().snapshot(messages)
        uses = [block for block in messages[-1]["content"] if block["type"] == "tool_use"]
        if not uses:
            return str(messages[-1]["content"][0]["text"])
        given = await tools.all((use["name"], use["input"], use["id"]) for use in uses)
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": each.text()}
            for use, each in zip(uses, given, strict=True)
        ]
        messages.append({"role": "user", "content": results})


async def main() -> None:
    task = "Tell our customers in Norway about the sale"
    try:
        print(await gate.begin("anthropic-mail", [{"role": "user", "content": task}], goal=task, key="sale"))
    except assentry.Parked as parked:
        print(f"parked: {parked.says}")
    await gate.close()


if __name__ == "__main__":
    asyncio.run(main())
