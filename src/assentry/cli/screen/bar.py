"""The edges of the screen: header, views, and the bar that says which keys do what, and why one does nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from assentry.cli.screen.card import Shown
from assentry.cli.screen.lines import DASH, Piece, Row, cut, flow, inert, line, spread
from assentry.cli.screen.live import View
from assentry.cli.screen.look import PLAIN, Look
from assentry.core.request import Kind, Review, State
from assentry.core.run import RunState

Spot = tuple[int, int, int, str]
"""A place that acts like a key when clicked: line, first and last column, key."""


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that can be done now, and its key."""

    key: str
    label: str
    on: bool = True
    harsh: bool = False


def run_deeds(shown: Shown | None) -> list[Deed]:
    """What can be done with the run of what is shown."""
    run = shown.about.run if shown is not None and shown.about is not None else None
    if run is None:
        return []
    paused = run.state is RunState.PAUSED
    may = run.state.is_open and run.state is not RunState.STOPPING
    return [*([Deed("p", "Go on" if paused else "Pause run")] if may else []), Deed("w", "Run")]


def deeds(shown: Shown | None) -> list[Deed]:
    """What can be done with what is shown, the most likely first."""
    if shown is None:
        return []
    brief = shown.brief
    if shown.why_not and brief.state is State.PENDING:
        return []
    if brief.state is State.UNKNOWN:
        return [Deed("r", "Say what became of it")]
    if brief.state is not State.PENDING:
        look = [Deed("a", "Accept"), Deed("f", "Flag", harsh=True)] if brief.review is Review.OPEN else []
        return [*look, *([Deed("u", "Undo")] if brief.undo_until is not None else [])]
    if brief.question is not None:
        count = min(9, len(brief.question.choices))
        pick = [Deed(f"1{DASH}{count}" if count > 1 else "1", "Answer")] if count else []
        return [*pick, Deed("a", "All answers" if count else "Answer"), Deed("d", "Deny", harsh=True)]
    may = not shown.hides
    count = min(9, len(brief.options))
    first = [Deed(f"1{DASH}{count}" if count > 1 else "1", "Choose"), Deed("a", "As asked", may)] if count else []
    first = first or [Deed("a", "Approve", may)]
    change = [Deed("m", "Modify")] if brief.editable else []
    back = [Deed("s", "Send back")] if brief.can_send_back else []
    return [*first, *change, *back, Deed("d", "Deny", harsh=True)]


def bar(shown: Shown | None, note: Piece | None, width: int, look: Look) -> tuple[list[Row], list[Spot]]:
    """What is going on, in a line, and under it the keys; never fewer keys than there are deeds."""
    told: Piece = note or _standing(shown, look)
    opens = [Deed("e", "Open")] if shown is not None and shown.hides else []
    more = [Deed("e", "Open/fold"), Deed("J", "JSON")] if shown is not None and not opens else []
    ends = [Deed("?", "Keys"), Deed("q", "Quit")]
    must = [*opens, *deeds(shown), *run_deeds(shown)]
    more = more if _width([*must, *ends, *more]) <= width else []
    rows: list[list[Piece]] = [[]]
    spots: list[Spot] = []
    x = 0
    for deed in (*must, *more):
        length = _width([deed])
        if x and x + length > width:
            rows.append([])
            x = 0
        rows[-1] += _deed(deed, look)
        if deed.on and len(deed.key) == 1:
            spots.append((len(rows), x, x + length - 2, deed.key))
        x += length
    # How to get help and out stands at the end of the last row, or in a row of its own.
    if x + _width(ends) > width:
        rows.append([])
    right = [piece for deed in ends for piece in _deed(deed, look)]
    keys = [*(line(*row) for row in rows[:-1]), spread(rows[-1], right, width)]
    return [line((cut(told[0], width), told[1])), *keys], spots


def _deed(deed: Deed, look: Look) -> list[Piece]:
    label = look.off if not deed.on else look.danger if deed.harsh else look.ink
    return [(f" {deed.key} ", look.off if not deed.on else look.key), (f" {deed.label}  ", label)]


def _width(found: Sequence[Deed]) -> int:
    return sum(len(deed.key) + len(deed.label) + 5 for deed in found)


def _standing(shown: Shown | None, look: Look) -> Piece:
    """What there is to say when nothing just happened."""
    if shown is None:
        return ("", PLAIN)
    if shown.brief.state is State.PENDING and shown.why_not:
        return (inert(f"you cannot decide this: {shown.why_not}"), look.risky)
    if shown.brief.state is State.PENDING and shown.hides:
        return (inert(f"a is off until you have opened what is folded — {shown.hides}"), look.risky)
    if shown.brief.state is State.PENDING and shown.brief.kind is not Kind.QUESTION and shown.brief.phrase:
        return ("critical: approving wants typed words and three seconds", look.critical)
    return ("", PLAIN)


_LOUD = (View.RAN, View.UNKNOWN)


def tabs(counts: Sequence[tuple[View, str]], current: View, width: int, look: Look) -> list[Row]:
    """The views, with how much is in each."""
    pieces: list[Piece] = [(" ", PLAIN)]
    short = width < 84
    for view, count in counts:
        name = {View.MINE: "Mine", View.WAITING: "Waiting"}.get(view, view.value) if short else view.value
        number = f" {count}" if count else ""
        style = look.key if view is current else look.risky if count and view in _LOUD else look.soft
        pieces += [(f" {name}{number} ", style), (" ", PLAIN)]
    return [line(*pieces)]


def tab_spots(counts: Sequence[tuple[View, str]], width: int) -> list[tuple[int, int, View]]:
    """Where each view can be clicked."""
    found, x = [], 1
    for view, count in counts:
        name = {View.MINE: "Mine", View.WAITING: "Waiting"}.get(view, view.value) if width < 84 else view.value
        length = cell_len(f" {name}{f' {count}' if count else ''} ")
        found.append((x, x + length, view))
        x += length + 1
    return found


def header(mine: str, place: str, who: str, live: bool, width: int, look: Look) -> list[Row]:
    """The name of the house, what waits, and whether the line to the store is up."""
    waits: Style = look.strong if mine != "0" else look.soft
    if not mine:
        return [spread([(" assentry ", look.accent)], [("○ away ", look.danger)], width)]
    words = "nothing waits for you" if mine == "0" else f"{mine} wait{'s' if mine == '1' else ''} for you"
    right: list[Piece] = [("● live", look.ok) if live else ("○ away", look.danger), (f"  {who} ", look.soft)]
    return [spread([(" assentry ", look.accent), (words, waits), (f"   {place}", look.faint)], right, width)]


def banners(
    trouble: str, missing: bool, observes: bool, nobody: str, held_up: Sequence[str], width: int, look: Look
) -> list[Row]:
    """What must not be overlooked: no store, nothing held, nobody known, somebody held up."""
    rows: list[Row] = []
    if trouble:
        style = look.loud if missing else look.alarm
        rows.append(line((f" ✕ {cut(inert(trouble), width - 26)} — trying again; R now".ljust(width), style)))
    if observes:
        text = " ▌ OBSERVE MODE: nothing is held. What would wait runs at once; `mode: enforce` ends this. "
        rows.append(line((cut(text, width).ljust(width), look.loud)))
    if nobody:
        rows.append(line((f" {cut(inert(nobody), width - 2)} ".ljust(width), look.loud)))
    rows += [line((f" ▌ {cut(inert(says), width - 4)} ".ljust(width), look.loud)) for says in held_up[:3]]
    return rows


_TEACH = (
    ("Requests come from agents. An agent asks when it calls a function that you guard:", ""),
    ("", """
    import assentry

    gate = assentry.open()

    @gate.guard(reversible=False, outside=True,
                says="Mail {to.count} people: {subject}")
    def send_email(to: list[str], subject: str, body: str):
        ...
"""),
    ("A call that is safe runs. One that is not waits here, the moment it is made, whichever process made it.", ""),
)  # fmt: skip


def empty(view: View, place: str, search: str, trouble: str, elsewhere: int, width: int, look: Look) -> list[Row]:
    """What to say where there is nothing, and what would change that."""
    if search:
        return [line(), *flow([(f"Nothing here contains “{inert(search)}”. esc ends the search.", look.ink)], width)]
    title = {
        View.MINE: "Nothing waits for you.",
        View.WAITING: "Nothing waits for anybody.",
        View.RAN: "Nothing has run that asks to be looked at.",
        View.UNKNOWN: "No outcome is unknown.",
        View.DECIDED: "Nothing has been decided yet.",
    }[view]
    title = f"Nothing can be shown: {inert(trouble)}." if trouble else title
    rows = [line(), *flow([(title, look.strong)], width), line()]
    if view is View.MINE and elsewhere:
        rows += flow([(f"{elsewhere} wait for others: ] shows them.", look.soft)], width)
    if view in (View.MINE, View.WAITING):
        for prose, code in _TEACH:
            rows += flow([(prose, look.soft)], width) if prose else []
            rows += [line((cut(row, width), look.accent)) for row in code.split("\n")] if code else []
        rows += [line(), *flow([("Watching ", look.soft), (inert(place), look.ink)], width)]
        rows += flow(
            [("To see it at work without an agent of yours: ", look.soft), ("assentry demo", look.accent)], width
        )
    if view is View.UNKNOWN:
        told = "When an action was started and its end was never recorded, it comes here and somebody looks."
        rows += flow([(told, look.soft)], width)
    return rows
