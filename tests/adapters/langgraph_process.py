"""A process of its own with a graph: `langgraph_process.py DATABASE FOLDER begin|work`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import assentry
from assentry.adapters.langgraph import attach, gated

DATABASE, FOLDER, PART = sys.argv[1], Path(sys.argv[2]), sys.argv[3]


def _did(line: str) -> str:
    with (FOLDER / "did").open("a") as file:
        file.write(f"{line}\n")
    return line


def note(text: str) -> str:
    """Adds a line to a list."""
    return _did(f"note {text}")


def send_mail(to: str) -> str:
    """Sends a mail."""
    return _did(f"mail {to}")


def model(state: MessagesState) -> dict[str, Any]:
    turns: list[list[Any]] = [
        [{"id": "c-1", "name": "note", "args": {"text": "first"}}],
        [{"id": "c-2", "name": "send_mail", "args": {"to": "everyone"}}],
        [],
    ]
    said = sum(isinstance(message, AIMessage) for message in state["messages"])
    return {"messages": [AIMessage("", tool_calls=turns[said])]}


async def main() -> None:
    gate = assentry.open(DATABASE, agent="tester")
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([note, send_mail], **gated(gate)))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    builder.add_edge("tools", "model")
    async with AsyncSqliteSaver.from_conn_string(str(FOLDER / "killed.db")) as saver:
        graph = attach(gate, builder.compile(checkpointer=saver, name="killed"))
        if PART == "begin":
            await graph.ainvoke({"messages": [("user", "go")]}, {"configurable": {"thread_id": "t1"}})
            print("parked", flush=True)
            await asyncio.Event().wait()
        async with gate.worker():
            await asyncio.Event().wait()


asyncio.run(main())
