"""What a program shows with its question is on the card in full, on every surface, with its lines as lines."""

from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from rich.console import Console

from assentry.adapters.langgraph import attach
from assentry.cli.card import draw
from assentry.cli.screen import card as screen_card
from assentry.cli.screen.card import Shown
from assentry.cli.screen.look import THEMES
from assentry.core.briefing import Briefing, brief
from assentry.server.looks.card import card_look
from assentry.server.pages.frame import templates
from assentry.telling.background import Background
from tests.adapters.contract import house_of
from tests.adapters.test_langgraph import LangGraph

NOW = datetime.now(UTC)
PROMISE = "We promise to pay $50,000."
MAIL = "Dear Bo,\n\n" + "\n".join(f"line {number} of many words" for number in range(60)) + f"\n{PROMISE}\nAnn"
PAYLOAD = {"question": "Send it?", "mail": {"to": ["bo@example.com"], "body": MAIL}, "notes": [MAIL]}


def commands(card: Briefing, whole: bool) -> str:
    out = StringIO()
    Console(file=out, width=100).print(draw(card, NOW, whole=whole))
    return out.getvalue()


def full_screen(card: Briefing) -> str:
    rows = screen_card.body(Shown(card), NOW, 100, THEMES["assentry-dark"][1])
    return "\n".join("".join(segment.text for segment in row) for row in rows)


@pytest.mark.parametrize("payload", [PAYLOAD, MAIL, [MAIL], {"question": MAIL}])
async def test_a_payload_is_never_cut(tmp_path: Path, payload: Any) -> None:
    def node(_: MessagesState) -> None:
        interrupt(payload)

    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    async with house_of(LangGraph(tmp_path / "g.db"), str(tmp_path / "assentry.db"), wait=False) as house:
        made = attach(await house.opened(), builder.compile(checkpointer=InMemorySaver()))
        await made.ainvoke({"messages": []}, {"configurable": {"thread_id": "t1"}})
        (request,) = await house.waiting()
        card = brief(request, NOW)
        look = card_look(request, Background(request), NOW, why_not="")
        macros = templates().get_template("looks.html").module
        page = str(macros.fields(look.args)) if look.args else str(look.card.question.text)  # type: ignore[union-attr]
    for seen in (commands(card, whole=False), commands(card, whole=True), full_screen(card), page):
        assert PROMISE in seen
        assert "U+000A" not in seen
        lines = [line for line in seen.splitlines() if "line 7 of many words" in line]
        assert lines
        assert "line 8 of" not in lines[-1]
