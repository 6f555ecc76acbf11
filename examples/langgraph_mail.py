"""A mailer made with LangGraph. It parks where a person has to decide, and any worker goes on with it.

    pip install langgraph-checkpoint-sqlite
    python examples/langgraph_mail.py
    assentry inbox
    assentry worker langgraph_mail:gate     # with examples/ on PYTHONPATH

The model follows a script, so that it needs no key. Threads are kept in threads.db, by LangGraph's own checkpointer.
"""

import sqlite3
import uuid
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import assentry
from assentry.adapters.langgraph import attach


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


def model(state: MessagesState) -> dict[str, Any]:
    turn = sum(isinstance(message, AIMessage) for message in state["messages"])
    return {"messages": [AIMessage("" if SCRIPT[turn] else "Done.", tool_calls=SCRIPT[turn])]}


def more(state: MessagesState) -> str:
    return "tools" if state["messages"][-1].tool_calls else END


builder = StateGraph(MessagesState)
builder.add_node("model", model)
builder.add_node("tools", ToolNode([find_customers, send_mail]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", more, ["tools", END])
builder.add_edge("tools", "model")

gate = assentry.open(agent="mailer")
threads = SqliteSaver(sqlite3.connect("threads.db", check_same_thread=False))
graph = attach(gate, builder.compile(checkpointer=threads, name="langgraph-mail"))

if __name__ == "__main__":
    task = {"messages": [("user", "Tell our customers in Norway about the sale")]}
    # A thread of its own: what was said in another one would be gone on with.
    result = graph.invoke(task, {"configurable": {"thread_id": str(uuid.uuid4())}})
    for pause in result.get("__interrupt__", ()):
        print("parked:", pause.value["assentry"]["says"])
