"""Asking the person at the terminal: typed phrases, reasons, and a look at what cannot be taken at a glance.

No question here has a default answer: an empty line, an end of input and anything unexpected leave all as it is.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

import typer

from assentry.cli.card import is_folded, print_card
from assentry.cli.print import inert, say
from assentry.cli.session import can_ask
from assentry.core.action import Json, Risk
from assentry.core.briefing import Briefing
from assentry.core.text import sentence
from assentry.errors import ConfirmationNeeded, InvalidDecision
from assentry.telling.background import Background


def line(prompt: str) -> str:
    """What the person typed, without the spaces around it; the end of input ends the command."""
    with _interruptible():
        sys.stdout.write(prompt)
        sys.stdout.flush()
        typed = sys.stdin.readline()
    if not typed:
        raise typer.Abort
    return typed.strip()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the command here and now; asyncio's own handler would wait for the loop, which waits for the line."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def words(prompt: str, given: str, missing: str, *, as_json: bool) -> str:
    """What was given, or what a person types when asked; else an error that says what is missing."""
    if not given.strip() and can_ask(as_json=as_json):
        given = line(prompt)
    if not given.strip():
        raise InvalidDecision(missing)
    return given


def confirmation(
    card: Briefing,
    now: datetime,
    *,
    verb: str,
    phrase: str,
    risk: Risk | None,
    args: Mapping[str, Json],
    confirm: str,
    digest: str,
    as_json: bool,
    about: Background | None = None,
) -> str:
    """What confirms the decision, after the person has seen what it is about where that has to be made sure.

    That is so for critical actions (the phrase is typed), for what was changed since it was asked, and for
    arguments too long for one look. A script proves that it showed the card by passing its digest. At a terminal
    everything dangerous is shown and asked about: the command may have been typed from memory.
    """
    if phrase and not confirm.strip():
        if not can_ask(as_json=as_json):
            raise ConfirmationNeeded(f"this is critical: pass --confirm {phrase!r} to {verb} it", phrase=phrase)
        print_card(card, now, whole=True, about=about)
        say()
        say(f"This is critical. To {verb} it, type: ", inert(phrase, "bold"))
        confirm = line("> ")
        if confirm != phrase:
            raise ConfirmationNeeded(f"{phrase!r} was not typed, so nothing was decided", phrase=phrase)
        return confirm
    reason = _needs_a_look(card, args)
    if reason and not digest and not confirm:
        look(card, now, verb, reason, as_json=as_json, about=about)
    elif not digest and not confirm and risk is not None and risk >= Risk.DANGEROUS and can_ask(as_json=as_json):
        look(card, now, verb, f"it is {risk}", as_json=as_json, about=about)
    return confirm


def look(
    card: Briefing, now: datetime, verb: str, reason: str, *, as_json: bool, about: Background | None = None
) -> None:
    """The person has the whole card before them and typed the verb."""
    if not can_ask(as_json=as_json):
        raise ConfirmationNeeded(
            f"{reason}; look at it with `assentry show {card.code} --full`, then pass the digest under it as --digest",
            phrase="",
        )
    print_card(card, now, whole=True, about=about)
    agreed(verb, f"{sentence(reason)}.")


def agreed(verb: str, about: str = "") -> None:
    """The person typed the verb; anything else ends the command and changes nothing."""
    if about:
        say()
        say(about)
    if line(f"Type {verb} to go on; anything else leaves it as it is: ") != verb:
        raise typer.Abort


def _needs_a_look(card: Briefing, args: Mapping[str, Json]) -> str:
    if card.differences:
        return f"request {card.code} was changed since it was asked"
    return f"the arguments of request {card.code} are too long for one look" if is_folded(args) else ""
