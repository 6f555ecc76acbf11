"""A mailer that is a loop around OpenAI's client. It parks where a person has to decide; any worker goes on with it.

    python examples/openai_mail.py
    assentry inbox
    assentry worker openai_mail:gate     # with examples/ on PYTHONPATH

The model follows a script, so that it needs no key.
"""

import asyncio
from typing import Any

from openai import AsyncOpenAI

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
client = AsyncOpenAI(base_url=f"{served(SCRIPT)}/v1", api_key="none")  # with AsyncOpenAI() it is theirs


@gate.host("openai-mail")
async def mailer(messages: Any, _: Any) -> str:
    """The whole agent: `messages` is all that it needs to go on."""
    while True:
        if messages[-1]["role"] != "assistant":
            said = await client.chat.completions.create(model="gpt-5", messages=messages, tools=tools.openai)
            messages.append(said.choices[0].message.model_dump(exclude_none=True))
            assentry.current_run().snapshot(messages)
        calls = messages[-1].get("tool_calls")
        if not calls:
            return str(messages[-1]["content"])
        asked = [(call["function"]["name"], call["function"]["arguments"], call["id"]) for call in calls]
        for (_name, _args, call_id), each in zip(asked, await tools.all(asked), strict=True):
            messages.append({"role": "tool", "tool_call_id": call_id, "content": each.text()})


async def main() -> None:
    task = "Tell our customers in Norway about the sale"
    try:
        print(await gate.begin("openai-mail", [{"role": "user", "content": task}], goal=task, key="sale"))
    except assentry.Parked as parked:
        print(f"parked: {parked.says}")
    await gate.close()


if __name__ == "__main__":
    asyncio.run(main())
