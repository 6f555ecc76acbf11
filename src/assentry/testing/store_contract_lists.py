"""The contract, second part: finding requests again, in order and page by page."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from assentry.core.action import Risk
from assentry.core.audit import Entry
from assentry.core.request import Executor, Request, Review, State
from assentry.core.verdict import GateKind
from assentry.errors import InvalidArguments
from assentry.ports import Filter, Store
from assentry.testing.store_values import LONG_AGO, WORKSPACE, advanced, asked, candidate, inserted, moved, pending

RISKS = tuple(Risk)
PENDING = Filter(states=(State.PENDING,))


def noted(count: int, at: datetime) -> Entry:
    return Entry("payloads.purged", at, WORKSPACE, "retention", "operator", {"count": count})


async def fill(store: Store, count: int) -> list[Request]:
    """`count` requests: every risk, some without deadline, some decided, from three agents."""
    made = []
    for number in range(count):
        shown = candidate(
            f"act_{number % 4}",
            risk=RISKS[number % 4],
            gate=GateKind.SOFT if number % 2 else GateKind.HARD,
            says=f"Does THING {number}",
        )
        ask = asked(number, shown=shown, agent=f"agent-{number % 3}", run=f"run-{number % 5}", step=f"s{number}")
        due_at = None if number % 6 == 0 else LONG_AGO + timedelta(hours=(number * 7919) % 100)
        state = State.DENIED if number % 10 == 9 else State.PENDING
        review = Review.OPEN if number % 10 == 9 and number % 20 > 10 else Review.NONE
        made.append(pending(ask, state=state, due_at=None if state is State.DENIED else due_at, review=review))
    for start in range(0, count, 50):
        steps = (store.transact(WORKSPACE, None, inserted(request)) for request in made[start : start + 50])
        await asyncio.gather(*steps)
    return made


async def pages(store: Store, wanted: Filter, limit: int = 7) -> AsyncIterator[tuple[Request, ...]]:
    """Each page of the list, until there is none."""
    after = ""
    while True:
        page = await store.requests(WORKSPACE, wanted, after=after, limit=limit)
        yield page.requests
        after = page.next
        if not after:
            return


async def whole(store: Store, wanted: Filter, limit: int = 7) -> list[Request]:
    return [request async for page in pages(store, wanted, limit) for request in page]


def urgency(request: Request) -> tuple[int, bool, datetime, str]:
    """The order of pending requests, as said in words: risk first, then the deadline, those without last."""
    at = request.due_at
    return -request.candidate.assessment.risk.rank, at is None, at or LONG_AGO, request.id


STATES = ((State.PENDING,), (), (State.PENDING, State.DENIED), (State.DENIED, State.RUNNING))
FIELDS: tuple[dict[str, Any], ...] = (
    {"agent": "agent-1"},
    {"action": "act_2"},
    {"risk": "critical"},
    {"risk": "safe"},
    {"run": "run-3"},
    {"gate": "soft"},
    {"review_open": True},
    {"due_before": LONG_AGO + timedelta(hours=30)},
    {"text": "thing 1"},
    {"text": "ACT_3"},
    {"agent": "agent-1", "action": "act_2", "gate": "hard"},
    {"agent": "nobody"},
    {"text": "%"},
    {"text": "hing"},
    {"text": "  thi...DO "},
    {"text": "k0001"},
    {"text": "act 1_thing"},
    {"text": "thing", "run": "run-1", "risk": "risky"},
)


def is_said(request: Request, text: str) -> bool:
    """Every word that was typed is the beginning of one that is there."""
    said = re.split(
        "[^a-z0-9]+", f"{request.ask.candidate.says} {request.candidate.action.name} {request.code}".lower()
    )
    typed = [word for word in re.split("[^a-z0-9]+", text.lower()) if word]
    return bool(typed) and all(any(word.startswith(start) for word in said) for start in typed)


def fits(request: Request, wanted: Filter) -> bool:
    """What the filter means, said without a database."""
    shown, ask = request.candidate, request.ask
    return all(
        (
            not wanted.states or request.state in wanted.states,
            wanted.agent in ("", ask.agent),
            wanted.action in ("", shown.action.name),
            wanted.risk in ("", str(shown.assessment.risk)),
            wanted.run in ("", ask.run),
            wanted.gate in ("", str(shown.verdict.gate)),
            not wanted.review_open or request.review is Review.OPEN,
            wanted.due_before is None or (request.due_at is not None and request.due_at < wanted.due_before),
            not wanted.text or is_said(request, wanted.text),
        )
    )


HOSTILE = (
    *'"\'*(&|%_?!^ \\\0\n', "a*", "NOT", "thing OR 1", "NEAR(a b)", "title:thing", "^thing", "a AND", "-x", "!x",
    "<->", ":*", "$1", "%s", "%(query)s", ":query", "a\0b", "\ud800", "x\udfffy", "\u202e", "\u200b", "\u00b7thing",
    "x" * 100_000, "x " * 50_000, "\u017f" * 3000, "\ufdfa" * 1000, "'; DROP TABLE asks; --",
)  # fmt: skip
"""What would be operators, quotes or too much, if anything read it as such."""


class Lists:
    """Filters, pages and queues."""

    async def test_pending_requests_come_most_urgent_first_without_gap_or_repetition(self, store: Store) -> None:
        made = await fill(store, 300)
        wanted = [request for request in made if request.state is State.PENDING]
        assert await whole(store, PENDING, 50) == sorted(wanted, key=urgency)

    async def test_everything_else_comes_newest_first_without_gap_or_repetition(self, store: Store) -> None:
        made = await fill(store, 300)
        assert await whole(store, Filter(), 50) == made[::-1]
        denied = [request for request in made if request.state is State.DENIED]
        assert await whole(store, Filter(states=(State.DENIED,))) == denied[::-1]
        both = Filter(states=(State.DENIED, State.PENDING, State.EXPIRED))
        assert await whole(store, both, 50) == made[::-1]

    async def test_a_filter_takes_what_fits_and_nothing_else(self, store: Store) -> None:
        made = await fill(store, 60)
        for states in STATES:
            for fields in FIELDS:
                wanted = Filter(states=states, **fields)
                expected = [request for request in made if fits(request, wanted)]
                if states == (State.PENDING,):
                    expected.sort(key=urgency)
                else:
                    expected.reverse()
                assert await whole(store, wanted, 17) == expected, wanted

    async def test_nothing_that_is_typed_into_a_search_is_an_error(self, store: Store) -> None:
        says = "Zahlt “Müller & Söhne” ½ des Preises; 北京 İstanbul cafe\u0301 file_name.TXT"
        request = pending(asked(1, shown=candidate("send_money.now", says=says)))
        await store.transact(WORKSPACE, None, inserted(request))
        for text in (
            "müller", "MÜLLER SÖH", "sohne", "café", "CAFE\u0301", "北", "京", "name", "txt file", "money", "send now",
            "istanbul", "1",
        ):  # fmt: skip
            found = await whole(store, Filter(text=text))
            assert (found == [request]) == (text not in ("sohne",)), text
        for text in HOSTILE:
            for wanted in (Filter(text=text), Filter(states=(State.PENDING,), text=text)):
                assert (await store.requests(WORKSPACE, wanted)).requests in ((), (request,))

    async def test_what_is_purged_is_found_by_no_search(self, store: Store) -> None:
        made = [pending(asked(n, shown=candidate(says=f"Pays rent {n}")), state=State.DENIED) for n in range(3)]
        for request in made:
            await store.transact(WORKSPACE, None, inserted(request))
        assert len(await whole(store, Filter(text="rent"))) == 3
        now = await store.now() + timedelta(days=1)
        assert await store.purge(WORKSPACE, now, noted) == 3
        for text in ("rent", "pays rent 1", made[1].code, candidate().action.name):
            assert await whole(store, Filter(text=text)) == []
        assert len(await whole(store, Filter())) == 3

    async def test_while_rows_change_those_that_stay_are_seen_exactly_once(self, store: Store) -> None:
        made = await fill(store, 300)
        staying = {r.id for n, r in enumerate(made) if r.state is State.PENDING and n % 3}
        leaving = [r for n, r in enumerate(made) if r.state is State.PENDING and n % 3 == 0]
        seen: list[str] = []
        number = 1000
        async for page in pages(store, PENDING, 20):
            seen += [request.id for request in page]
            for request in leaving[:8]:
                await store.transact(WORKSPACE, request.id, moved(state=State.DENIED, due_at=None))
            del leaving[:8]
            number += 1
            await store.transact(WORKSPACE, None, inserted(pending(asked(number))))
        assert len(seen) == len(set(seen))
        assert staying <= set(seen)

    async def test_a_cursor_that_is_none_is_refused_in_one_line(self, store: Store) -> None:
        for cursor in ("x", "!", "WzEsMl0", "e30", "AAAA" * 1000, "WyJ1Il0", "ü", "WyJuIixudWxsXQ", "W1tbW1tb"):
            for wanted in (PENDING, Filter()):
                with pytest.raises(InvalidArguments) as caught:
                    await store.requests(WORKSPACE, wanted, after=cursor)
                assert "\n" not in str(caught.value)

    async def test_a_cursor_of_one_order_is_refused_by_the_other(self, store: Store) -> None:
        await fill(store, 30)
        urgent = await store.requests(WORKSPACE, PENDING, limit=5)
        newest = await store.requests(WORKSPACE, Filter(), limit=5)
        with pytest.raises(InvalidArguments):
            await store.requests(WORKSPACE, Filter(), after=urgent.next)
        with pytest.raises(InvalidArguments):
            await store.requests(WORKSPACE, PENDING, after=newest.next)

    async def test_an_unknown_risk_is_refused(self, store: Store) -> None:
        with pytest.raises(InvalidArguments):
            await store.requests(WORKSPACE, Filter(risk="enormous"))

    async def test_a_request_is_found_by_the_start_of_its_code_or_id(self, store: Store) -> None:
        made = await fill(store, 30)
        assert await store.find(WORKSPACE, "K00007") == (made[7],)
        assert await store.find(WORKSPACE, "K0001") == tuple(made[19:9:-1])
        assert await store.find(WORKSPACE, made[7].id) == (made[7],)
        assert await store.find(WORKSPACE, made[7].id[:13]) == (made[7],)
        assert len(await store.find(WORKSPACE, "K", limit=3)) == 3
        for nothing in ("K00007x", "%", "_", "k00007", "\U0010ffff", "\0"):
            assert await store.find(WORKSPACE, nothing) == ()

    async def test_what_is_due_comes_longest_overdue_first(self, store: Store) -> None:
        now = await store.now()
        times = (now - timedelta(hours=1), now - timedelta(hours=3), None, now + timedelta(hours=1))
        made = [pending(asked(number), due_at=at) for number, at in enumerate(times)]
        for request in made:
            await store.transact(WORKSPACE, None, inserted(request))
        assert await store.due(WORKSPACE) == (made[1], made[0])
        assert await store.due(WORKSPACE, limit=1) == (made[1],)
        assert await store.next_due(WORKSPACE) == times[1]
        for number in (0, 1):
            await store.transact(WORKSPACE, made[number].id, moved(due_at=None))
        assert await store.due(WORKSPACE) == ()
        assert await store.next_due(WORKSPACE) == times[3]
        assert await store.next_due("other") is None

    async def test_what_workers_can_take_comes_oldest_first(self, store: Store) -> None:
        states = (State.APPROVED, State.PENDING, State.UNKNOWN, State.UNDO_ASKED, State.RUNNING, State.DONE)
        made = []
        for number in range(36):
            executor = Executor.WORKER if number % 2 else Executor.CALLER
            ask = asked(number, shown=candidate(f"act_{number % 3}"), executor=executor)
            made.append(pending(ask, state=states[(number // 2) % 6]))
            await store.transact(WORKSPACE, None, inserted(made[-1]))

        def takable(request: Request) -> bool:
            worker = request.ask.executor is Executor.WORKER
            return request.state in (State.UNKNOWN, State.UNDO_ASKED) or (request.state is State.APPROVED and worker)

        wanted = [r for r in made if takable(r) and r.candidate.action.name in ("act_0", "act_2")]
        assert await store.runnable(WORKSPACE, ("act_0", "act_2", "act_0"), limit=50) == tuple(wanted)
        assert await store.runnable(WORKSPACE, ("act_0", "act_2"), limit=2) == tuple(wanted[:2])
        assert await store.runnable(WORKSPACE, ()) == ()
        step = advanced(lambda request, _: replace(request, state=State.RUNNING))
        await store.transact(WORKSPACE, wanted[0].id, step)
        assert await store.runnable(WORKSPACE, ("act_0", "act_2"), limit=1) == (wanted[1],)
