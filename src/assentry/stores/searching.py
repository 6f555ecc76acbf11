"""Pages of a list, searched or not. A search costs the same however many requests there are and however many fit.

Where many fit, a short walk along the list meets enough of them. Where few do, the index of words names them all.
Which of the two it is, is told by the one request in 64 that stands in that index twice. Between the two, a walk that
grew long ends with what it has met: such a page may hold few requests, or none, and still say where to go on.
"""

from collections.abc import Callable
from typing import Any

from assentry.core.request import Request
from assentry.ports import Filter, Page
from assentry.stores.listing import MOST, Dialect, Listing, listing
from assentry.stores.rows import readable
from assentry.stores.words import marked, typed

FIRST_WALKS = (250, 1_000)
LONG_WALK = 8_000
MANY = 32
"""So many of those that stand for many fit: about 2,000 do."""
COUNTED = 4_000

Rows = list[tuple[Any, ...]]
Fetch = Callable[[str, dict[str, Any]], Rows]
Place = tuple[str, int, Any]
"""A request, its urgency and when it is due."""


def page(workspace: str, wanted: Filter, after: str, limit: int, dialect: Dialect, fetch: Fetch) -> Page:
    """One page of `wanted`."""
    limit = max(1, min(limit, MOST))
    if not wanted.text:
        query = listing(workspace, wanted, after, limit, dialect)
        return query.page(fetch(query.sql, query.values))
    words = typed(wanted.text)
    listing(workspace, wanted, after, limit, dialect)  # so that a wrong cursor is refused whatever was typed
    return _Search(workspace, wanted, limit, words, dialect, fetch).page(after) if words else Page(())


class _Search:
    """One page of a search, while it is found."""

    def __init__(
        self, workspace: str, wanted: Filter, limit: int, words: tuple[str, ...], dialect: Dialect, fetch: Fetch
    ) -> None:
        self._workspace, self._wanted, self._limit, self._words = workspace, wanted, limit, words
        self._dialect, self._fetch = dialect, fetch
        self._hits: list[Place] = []
        self._after = ""
        """Where the walk goes on; empty once the list is at its end."""

    def page(self, after: str) -> Page:
        self._after = after
        for length in FIRST_WALKS:
            if self._walk(length):
                return self._found()
        if self._fit_many():
            self._walk(LONG_WALK)
        else:
            self._look_up()
        return self._found()

    def _walk(self, length: int) -> bool:
        """So many more of the list were looked at: whether that is enough."""
        query = listing(self._workspace, self._wanted, self._after, length - 1, self._dialect)
        values = query.values | {f"word{number}": f" {word}" for number, word in enumerate(self._words)}
        met = self._fetch(walk_sql(query, len(self._words)), values)
        self._hits += [(key, urgency, due) for key, urgency, due, fits in met if fits]
        self._after = self._place(query, met[-1]) if len(met) == length else ""
        return len(self._hits) > self._limit or not self._after

    def _fit_many(self) -> bool:
        return self._sampled(self._words, MANY) >= MANY

    def _sampled(self, words: tuple[str, ...], most: int) -> int:
        """How many of the requests that stand for many fit."""
        values = {"query": self._dialect.query(marked(words)), "limit": most}
        return int(self._fetch(self._dialect.sample, values)[0][0])

    def _look_up(self) -> None:
        """Whatever is left of the list and fits is known, up to the page."""
        query = listing(self._workspace, self._wanted, self._after, self._limit, self._dialect)
        rare, common = self._apart()
        values = query.values | {"query": self._dialect.query(rare)}
        values |= {f"word{number}": f" {word}" for number, word in enumerate(common)}
        self._hits += [
            (key, urgency, due) for key, urgency, due in self._fetch(look_up_sql(query, len(common)), values)
        ]
        self._after = ""

    def _apart(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words that the index is asked for, and those that so many have that it is quicker to read the rest."""
        if len(self._words) == 1:
            return self._words, ()
        counts = {word: self._sampled((word,), COUNTED) for word in self._words}
        bound = 4 * (1 + min(counts.values()))
        rare = tuple(word for word in self._words if counts[word] <= bound)
        return rare, tuple(word for word in self._words if word not in rare)

    def _found(self) -> Page:
        """The page, read; and where the next begins."""
        hits, more = self._hits[: self._limit], len(self._hits) > self._limit
        query = listing(self._workspace, self._wanted, "", self._limit, self._dialect)
        requests = self._read([key for key, _, _ in hits])
        return Page(requests, self._place(query, hits[-1]) if more else self._after)

    def _place(self, query: Listing, row: tuple[Any, ...]) -> str:
        return query.place(str(row[0]), int(row[1]), self._dialect.since(row[2]))

    def _read(self, keys: list[str]) -> tuple[Request, ...]:
        """The requests, in this order; without those that have just moved out of the list."""
        if not keys:
            return ()
        names = [f"key{number}" for number in range(len(keys))]
        values = {"workspace": self._workspace} | dict(zip(names, keys, strict=True))
        found = {request.id: request for request in readable(self._fetch(read_sql(names, self._dialect), values))}
        states = self._wanted.states
        return tuple(found[key] for key in keys if key in found and (not states or found[key].state in states))


def walk_sql(query: Listing, words: int) -> str:
    """The next requests of a list, and whether each has a word with every beginning."""
    dialect = query.dialect
    fits = " AND ".join(dialect.contains.format("a.title", dialect[f"word{number}"]) for number in range(words))
    return (
        f"SELECT r.id, r.urgency, r.due_at, {fits} FROM ({query.keys}) r {dialect.titles} "  # noqa: S608
        f"ORDER BY {query.order}"
    )


def look_up_sql(query: Listing, words: int = 0) -> str:
    """Those of a list that the index of words names and that have so many other words."""
    dialect = query.dialect
    found = dialect.found.format(query=dialect["query"], workspace=dialect["workspace"])
    fits = "".join(f" AND {dialect.contains.format('a.title', dialect[f'word{number}'])}" for number in range(words))
    return f"{found}{fits} AND {query.conditions} ORDER BY {query.order} LIMIT {query.dialect['limit']}"


def read_sql(names: list[str], dialect: Dialect) -> str:
    """The rows (ask, body, id) of these requests, in any order."""
    keys = ", ".join(dialect[name] for name in names)
    return (
        f"SELECT a.body, r.body, r.id FROM requests r JOIN asks a ON {dialect.same} "  # noqa: S608
        f"WHERE r.workspace = {dialect['workspace']} AND r.id IN ({keys})"
    )
