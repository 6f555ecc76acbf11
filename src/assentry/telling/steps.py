"""Steps of a run as lines: one line where a card recalls the last of them, a paragraph each in a timeline."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from assentry.core.request import Kind, Request
from assentry.telling.run_words import claimed_cost, clock, cut, decided_words, ended_words, gate_words, in_short
from assentry.telling.told import SHAPES, Told, Tone, told, tone_of


def mark(request: Request) -> tuple[str, Tone]:
    """Shape and word of how serious it is."""
    if request.ask.kind is Kind.QUESTION:
        return "? question", Tone.ASKED
    risk = request.candidate.assessment.risk
    return f"{SHAPES[risk]} {risk}", tone_of(risk)


def recalled(requests: Iterable[Request], now: datetime) -> Iterator[Told]:
    """The last steps, one line each."""
    found = list(requests)
    times = [clock(request.ask.created_at, now) for request in found]
    margin = max(map(len, times), default=0) + 2
    for request, at in zip(found, times, strict=True):
        how, tone = in_short(request, now)
        pieces = (
            mark(request),
            (f"  {request.code}  ", Tone.STRONG),
            (cut(request.candidate.says, False, 120), Tone.PLAIN),
        )
        yield Told((*pieces, (f" {chr(0x2013)} ", Tone.SOFT), (cut(how, False, 160), tone)), at, margin=margin)


def stepped(request: Request, now: datetime, *, depth: int, margin: int, whole: bool) -> Iterator[Told]:
    """One step: when, how serious, what; then what the gate did and why; then who decided and how it ended."""
    title = (mark(request), (f"  {request.code}  ", Tone.STRONG), (cut(request.candidate.says, whole), Tone.STRONG))
    yield Told(title, clock(request.ask.created_at, now), margin=margin, depth=depth)
    yield told(cut(gate_words(request), whole), Tone.SOFT, depth=depth + margin)
    pieces = [each for each in (decided_words(request, now), ended_words(request, now)) if each[0]]
    cost = claimed_cost(request)
    if cost:
        pieces.append((cost, Tone.SOFT))
    apart = [piece for each in pieces for piece in ((" · ", Tone.SOFT), (_apart(cut(each[0], whole)), each[1]))]
    if apart:
        yield Told(tuple(apart[1:]), depth=depth + margin)


def _apart(text: str) -> str:
    """Without the mark that stands between clauses, so that none can pose as several."""
    return text.replace("·", "⟨U+00B7⟩")
