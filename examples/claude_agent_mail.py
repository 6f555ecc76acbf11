"""A mailer made with the Claude Agent SDK. It parks where a person has to decide, and any worker goes on with it.

    python examples/claude_agent_mail.py
    assentry inbox
    assentry worker claude_agent_mail:gate     # with examples/ on PYTHONPATH

Claude's own runtime works for it; the model behind that follows a script, so that it needs no key.
"""

import asyncio
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, tool

import assentry
from assentry.adapters.claude_agent import attach
from scripted_model import served

MAIL = {"to": ["ann@example.com", "bo@example.com"], "subject": "Sale"}
SCRIPT = [("mcp__mail__find_customers", {"country": "NO"}), ("mcp__mail__send_mail", MAIL), "Done."]


@tool("find_customers", "Finds customers.", {"country": str})
async def find_customers(args: dict[str, Any]) -> dict[str, Any]:
    found = "ann@example.com, bo@example.com" if args["country"] == "NO" else ""
    return {"content": [{"type": "text", "text": found}]}


@tool("send_mail", "Sends a mail.", {"to": list, "subject": str})
async def send_mail(args: dict[str, Any]) -> dict[str, Any]:
    print("mailed", ", ".join(args["to"]), "about", args["subject"], flush=True)
    return {"content": [{"type": "text", "text": "sent"}]}


options = ClaudeAgentOptions(
    mcp_servers={"mail": create_sdk_mcp_server("mail", tools=[find_customers, send_mail])},
    allowed_tools=["mcp__mail__find_customers", "mcp__mail__send_mail"],
    setting_sources=[],
    cwd=Path.cwd(),  # a session belongs to its folder: the worker is run in the same one
    env={"ANTHROPIC_BASE_URL": served(SCRIPT), "ANTHROPIC_API_KEY": "none"},  # leave this out, and it is Claude
)
gate = assentry.open(agent="mailer")
claude = attach(gate, options, name="claude-agent-mail")


async def main() -> None:
    try:
        print((await claude.run("Tell our customers in Norway about the sale", key="sale")).result)
    except assentry.Parked as parked:
        print(f"parked: {parked.says}")
    await gate.close()


if __name__ == "__main__":
    asyncio.run(main())
