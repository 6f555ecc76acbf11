"""The list of the inbox: what waits for somebody, what they look for in it, and how many there are."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from assentry.core.action import Risk
from assentry.core.briefing import Briefing, brief
from assentry.core.request import Request, State
from assentry.core.text import shortened
from assentry.ports import Filter
from assentry.server.looks.card import Mark, mark_of
from assentry.server.visitors import Visitor

_PAGE = 50
_SCANNED = 400
"""How many are looked at for those that are somebody's to decide."""
TABS = {
    "mine": "Mine",
    "team": "Everyone's",
    "review": "Afterwards",
    "decided": "Decided",
}
KINDS = {
    "hard": "waits for a decision",
    "soft": "runs unless somebody objects",
    "manual": "is done by hand",
    "ask": "a question",
}
"""What the gate of each kind of request means to whoever looks for one."""
_DECIDED = (State.DONE, State.APPROVED, State.RUNNING, State.DENIED, State.ANSWERED, State.REVISED, State.FAILED,
            State.EXPIRED, State.CANCELLED, State.UNDONE, State.UNKNOWN, State.REFUSED)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the list."""

    card: Briefing
    mark: Mark
    version: int
    about: str
    mine: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """What the list shows, and how it was asked for."""

    items: tuple[Item, ...]
    tab: str
    wanted: Filter
    next: str
    waiting: int
    """How many wait for this person; more than 99 are not counted."""

    def query(self, **changes: str) -> str:
        """The same list with something changed, as a query."""
        now = {
            "tab": self.tab if self.tab != "mine" else "",
            "agent": self.wanted.agent,
            "risk": self.wanted.risk,
            "kind": self.wanted.gate,
            "text": self.wanted.text,
        }
        kept = {name: value for name, value in {**now, **changes}.items() if value}
        return f"?{urlencode(kept)}" if kept else ""


def kept_query(query: Mapping[str, str], *, told: str = "") -> str:
    """What a query says of the list, for the next page of the same flow; and what was just decided."""
    kept = {name: query[name] for name in ("tab", "agent", "risk", "kind", "text") if query.get(name)}
    return f"?{urlencode({**kept, 'told': told} if told else kept)}" if kept or told else ""


async def listing(visitor: Visitor, query: Mapping[str, str], now: datetime) -> Listing:
    """The list that this query asks for."""
    tab = query.get("tab", "mine")
    tab = tab if tab in TABS else "mine"
    risk, kind = query.get("risk", ""), query.get("kind", "")
    wanted = Filter(
        agent=query.get("agent", "")[:200],
        risk=risk if risk in {str(each) for each in Risk} else "",
        gate=kind if kind in KINDS else "",
        text=query.get("text", "")[:200],
        review_open=tab == "review",
        states={"mine": (State.PENDING,), "team": (State.PENDING,), "decided": _DECIDED}.get(tab, ()),
    )
    after = query.get("after", "")[:400]
    if tab == "mine":
        items, following, waiting = await _mine(visitor, wanted, after, now)
        plain = not (wanted.agent or wanted.risk or wanted.gate or wanted.text or after)
        waiting = waiting if plain else (await _mine(visitor, Filter(states=(State.PENDING,)), "", now))[2]
    else:
        found = await visitor.room.desk.inbox.page(wanted, after=after, limit=_PAGE)
        items, following = [_item(visitor, each, now) for each in found.requests], found.next
        waiting = (await _mine(visitor, Filter(states=(State.PENDING,)), "", now))[2]
    return Listing(tuple(items), tab, wanted, following, waiting)


async def _mine(visitor: Visitor, wanted: Filter, after: str, now: datetime) -> tuple[list[Item], str, int]:
    """What this person may decide, where the next page begins, and how many there are (up to 100)."""
    inbox, scanned, following, count = visitor.room.desk.inbox, 0, "", 0
    items: list[Item] = []
    while scanned < _SCANNED and count < 100:
        found = await inbox.page(wanted, after=after, limit=_PAGE)
        scanned += _PAGE  # a page of a search may hold less, and took as long
        mine = [each for each in found.requests if inbox.may_decide(visitor.principal, each) is None]
        count += len(mine)
        after = found.next
        if len(items) < _PAGE // 2:
            items += [_item(visitor, each, now) for each in mine]
            following = after
        if not after:
            break
    return items, following, count


def _item(visitor: Visitor, request: Request, now: datetime) -> Item:
    card = brief(request, now)
    hurts = [fact.says for fact in card.facts if fact.hurts][:1]
    words = [card.agent, *hurts, *(each.words for each in card.effect[:1]), *_first(card)]
    if card.state is State.PENDING and card.needs > 1:
        given = sum(vote.word in ("approve", "modify", "choose") for vote in card.votes)
        words.append(f"{given} of {card.needs} approvals")
    mine = visitor.room.desk.inbox.may_decide(visitor.principal, request) is None
    return Item(card, mark_of(card), request.version, shortened(" · ".join(words), 160), mine)


def _first(card: Briefing) -> list[str]:
    """Short arguments that the title does not tell, so that two cards of one kind can be told apart."""
    plain = {name: str(value) for name, value in card.args.items() if isinstance(value, str | int | float)}
    short = [f"{name}: {value}" for name, value in plain.items() if 0 < len(value) <= 30 and value not in card.title]
    return [each.replace("·", "⟨U+00B7⟩") for each in short[:2]] if not card.is_stop else []


async def waiting(visitor: Visitor) -> int:
    """How many wait for this person; more than 99 are not counted."""
    now = await visitor.room.desk.store.now()
    return (await _mine(visitor, Filter(states=(State.PENDING,)), "", now))[2]
