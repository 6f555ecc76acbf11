"""What is told in lines, once for every surface: paragraphs, their tones, and sections.

What an agent says stands apart from what is known; a surface makes every piece of text inert when it draws it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from assentry.core.action import Risk

_ABOUT_THE_AGENT = "The agent says (unchecked)"

SHAPES = {Risk.SAFE: "●", Risk.RISKY: "▴", Risk.DANGEROUS: "▲", Risk.CRITICAL: "◆"}
"""Each risk has a shape, so that nobody needs to see colours."""


class Tone(Enum):
    """How something is meant to stand out, whatever the colours are."""

    PLAIN = ""
    STRONG = "bold"
    SOFT = "dim"
    GOOD = "green"
    WARN = "yellow"
    BAD = "red"
    SAFE = "safe"
    RISKY = "risky"
    DANGEROUS = "dangerous"
    CRITICAL = "critical"
    ASKED = "question"
    CLAIM = "claim"
    BOX = "box"
    ADDED = "added"
    GONE = "gone"
    ADDED_WORD = "added word"
    GONE_WORD = "gone word"


def tone_of(risk: Risk) -> Tone:
    """The tone of a risk, beside its shape."""
    return Tone(str(risk))


@dataclass(frozen=True, slots=True)
class Told:
    """One paragraph: what stands before it in a column of its own, and what it says."""

    pieces: tuple[tuple[str, Tone], ...]
    lead: str = ""
    lead_tone: Tone = Tone.SOFT
    margin: int = 0
    """How wide the column of the lead is, at least."""
    depth: int = 0
    """How far it is indented, in characters."""
    breaks: bool = False
    """Line breaks in it are kept; otherwise they are spelled out, so that no text can pose as several lines."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section: a heading of ours, paragraphs, and what the agent says about it, apart."""

    title: str
    lines: tuple[Told, ...] = ()
    claims: tuple[Told, ...] = ()
    says: str = _ABOUT_THE_AGENT
    after: tuple[Told, ...] = ()
    """What stands below the box."""


def told(text: str, tone: Tone = Tone.PLAIN, *, lead: str = "", margin: int = 0, depth: int = 0) -> Told:
    """A paragraph in one tone."""
    return Told(((text, tone),), lead, margin=margin, depth=depth)


def named(rows: Iterable[tuple[str, str, Tone]]) -> tuple[Told, ...]:
    """Values beside their names, in two columns."""
    found = list(rows)
    margin = max((len(name) for name, _, _ in found), default=0) + 2
    return tuple(told(text, tone, lead=name, margin=margin) for name, text, tone in found)
