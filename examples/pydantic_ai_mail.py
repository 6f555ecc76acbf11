"""A mailer made with Pydantic AI. It parks where a person has to decide, and any worker goes on with it.

    python examples/pydantic_ai_mail.py
    assentry inbox
    assentry worker pydantic_ai_mail:gate     # with examples/ on PYTHONPATH

The model follows a script, so that it needs no key.
"""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import assentry
from assentry.adapters.pydantic_ai import attach


async def find_customers(country: str) -> list[str]:
    """Finds customers."""
    return ["ann@example.com", "bo@example.com"] if country == "NO" else []


async def send_mail(to: list[str], subject: str) -> str:
    """Sends a mail."""
    print("mailed", ", ".join(to), "about", subject, flush=True)
    return "sent"


SCRIPT = [
    ToolCallPart("find_customers", {"country": "NO"}, tool_call_id="1"),
    ToolCallPart("send_mail", {"to": ["ann@example.com", "bo@example.com"], "subject": "Sale"}, tool_call_id="2"),
    TextPart("Done."),
]


async def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    return ModelResponse(parts=[SCRIPT[turn]])


gate = assentry.open(agent="mailer")
agent = attach(gate, Agent(FunctionModel(model), tools=[find_customers, send_mail]), name="pydantic-ai-mail")


async def main() -> None:
    try:
        print((await agent.run("Tell our customers in Norway about the sale", key="sale")).output)
    except assentry.Parked as parked:
        print(f"parked: {parked.says}")
    await gate.close()


if __name__ == "__main__":
    asyncio.run(main())
