"""A mailer made with LangChain's `create_agent`. It parks where a person has to decide, and any worker goes on with it.

    python examples/langchain_mail.py
    assentry inbox
    assentry worker langchain_mail:gate     # with examples/ on PYTHONPATH

The model follows a script, so that it needs no key. Threads are kept in threads.db, by LangGraph's own checkpointer.
"""

import sqlite3
import uuid
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite import SqliteSaver

import assentry
from assentry.adapters.langchain import AssentryMiddleware, attach


def find_customers(country: str) -> list[str]:
    """Finds customers."""
    return ["ann@example.com", "bo@example.com"] if country == "NO" else []


def send_mail(to: list[str], subject: str) -> str:
    """Sends a mail."""
    print("mailed", ", ".join(to), "about", subject, flush=True)
    return "sent"


SCRIPT: list[list[Any]] = [
    [{"id": "1", "name": "find_customers", "args": {"country": "NO"}}],
    [{"id": "2", "name": "send_mail", "args": {"to": ["ann@example.com", "bo@example.com"], "subject": "Sale"}}],
    [],
]


class Scripted(GenericFakeChatModel):
    """Says the next turn of the script, by what it has said so far."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        turn = sum(isinstance(message, AIMessage) for message in messages)
        said = AIMessage("" if SCRIPT[turn] else "Done.", tool_calls=SCRIPT[turn])
        return ChatResult(generations=[ChatGeneration(message=said)])


gate = assentry.open(agent="mailer")
agent = attach(
    gate,
    create_agent(
        Scripted(messages=iter(())),
        [find_customers, send_mail],
        middleware=[AssentryMiddleware(gate, {"send_mail": True})],
        checkpointer=SqliteSaver(sqlite3.connect("threads.db", check_same_thread=False)),
        name="langchain-mail",
    ),
)

if __name__ == "__main__":
    task = {"messages": [("user", "Tell our customers in Norway about the sale")]}
    # A thread of its own: what was said in another one would be gone on with.
    result = agent.invoke(task, {"configurable": {"thread_id": str(uuid.uuid4())}})
    for pause in result.get("__interrupt__", ()):
        print("parked:", pause.value["assentry"]["says"])
