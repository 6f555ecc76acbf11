"""What a person says to a request: asks for what is missing, in a dialog that fits the risk, and passes it on.

Each method returns the request as it is afterwards, or nothing if the person thought better of it. Errors that
say why it cannot be (somebody was faster, not allowed, changed meanwhile) reach the caller.
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from assentry.cli.screen.card import Shown, hidden, option_summary, summary
from assentry.cli.screen.dialogs import Confirm, Dialog, Pick, Typed, Words
from assentry.cli.screen.edit import Form
from assentry.cli.screen.fields import folds
from assentry.cli.screen.lines import BLANK, DASH, Row, flow, inert
from assentry.cli.screen.live import Live
from assentry.cli.screen.look import Look
from assentry.core.action import Json, Risk
from assentry.core.authority import Principal
from assentry.core.briefing import ALLOWS_NO_CHANGES, Briefing, allows_changes, brief
from assentry.core.canonical import restore
from assentry.core.decision import Candidate, Finding, Opinion
from assentry.core.request import Request
from assentry.core.verdict import GateKind
from assentry.errors import ConfirmationNeeded, InvalidDecision, NotAllowed

SURFACE = "terminal"

REASONS = (
    "Not needed",
    "Too much: ask for less",
    "The wrong target",
    "Not now; ask again later",
    "I cannot tell from this whether it is right",
)

_FINDINGS = (
    (Finding.DONE, "It happened: record it as done"),
    (Finding.FAILED, "It did not happen: record it as failed"),
    (Finding.RETRY, "It did not happen, and it should: run exactly this once more"),
)

Ask = Callable[[Dialog[Any]], Awaitable[Any]]


class Decisions:
    """The ways to decide, for whoever sits here."""

    def __init__(self, live: Live, look: Callable[[], Look], ask: Ask) -> None:
        self._live, self._look, self._ask = live, look, ask
        self.committing = ""
        """The request that a word of ours is just being committed on: what is heard of it is our own."""

    @property
    def _person(self) -> Principal:
        if self._live.person is None:
            raise NotAllowed(self._live.nobody or "nobody is known by this identity", principal="")
        return self._live.person

    def _shown(self, found: Briefing) -> dict[str, str]:
        return {"seen_digest": found.digest, "surface": SURFACE}

    async def _said(self, request_id: str, word: Awaitable[Request]) -> Request:
        self.committing = request_id
        try:
            return await word
        finally:
            self.committing = ""

    async def approve(self, shown: Shown) -> Request | None:
        """As asked: at once if it is at most risky, after `y` if dangerous, after typing if critical."""
        found = shown.brief
        if found.question is not None:
            return await self.answer(shown)
        if shown.hides:
            raise InvalidDecision(f"open what is folded first (e): {shown.hides}")
        confirm = ""
        if found.phrase:
            typed = await self._typed(found)
            if typed is None:
                return None
            confirm = typed
        elif found.risk >= Risk.DANGEROUS and not await self._sure(found, "yes, run exactly this", "Approve this?"):
            return None
        return await self._confirmed(
            found,
            confirm,
            lambda word: self._live.inbox.approve(self._person, found.id, confirm=word, **self._shown(found)),
        )

    async def choose(self, shown: Shown, number: int) -> Request | None:
        """An option instead, its exact bytes seen before it is taken."""
        found = shown.brief
        if found.question is not None:
            return await self._answer_with(shown, number)
        if not 0 <= number < len(found.options):
            raise InvalidDecision(f"there is no option {number + 1} here")
        option = found.options[number]
        if option.forbidden:
            raise InvalidDecision(f"policy forbids option {number + 1}; choose another, or deny")
        look, confirm = self._look(), ""
        heading = f"Choose {number + 1}: {inert(option.label)[:200]}"

        def draw(width: int, whole: bool) -> list[Row]:
            return option_summary(found, option, width, look, whole=whole)

        if option.phrase:
            typed = await self._ask(Typed(heading, look, lambda width: draw(width, True), option.phrase))
            if typed is None:
                return None
            confirm = typed
        else:
            hides = "; ".join(f"{fold.hidden} of {fold.name}" for fold in folds(option.args))
            if not await self._ask(Confirm(heading, look, draw, "yes, take this one", hides=hides)):
                return None
        return await self._confirmed(
            found,
            confirm,
            lambda word: self._live.inbox.choose(self._person, found.id, number, confirm=word, **self._shown(found)),
        )

    async def choose_from(self, shown: Shown) -> Request | None:
        """One of all options, also beyond the ninth."""
        found = shown.brief
        labels = found.question.choices if found.question else tuple(option.label for option in found.options)
        if not labels:
            raise InvalidDecision("it offers no options; a approves it, d denies it")
        picked = await self._ask(
            Pick("Choose", self._look(), labels, own_words="or its number" if len(labels) > 9 else "")
        )
        if picked is None:
            return None
        if picked.number is None and not picked.text.isdigit():
            raise InvalidDecision("that is no number of an option")
        return await self.choose(shown, picked.number if picked.number is not None else int(picked.text) - 1)

    async def deny(self, shown: Shown) -> Request | None:
        """No, with the reason that the agent is told. What nobody waits for is dismissed, and nobody is told why."""
        found = shown.brief
        if found.abandoned_at is not None:
            if not await self._sure(found, "yes, dismiss it", "Nobody is waiting for this any more. Dismiss it?"):
                return None
            return await self._said(
                found.id, self._live.inbox.deny(self._person, found.id, "", stop=False, **self._shown(found))
            )
        picked = await self._ask(
            Pick(
                f"Deny: {inert(found.title)[:160]}",
                self._look(),
                REASONS,
                own_words="or say it in your own words; the agent is told",
                switch="stop the whole run" if found.run else "",
                draft=f"deny {found.id}",
            )
        )
        if picked is None:
            return None
        reason = picked.text or REASONS[picked.number or 0]
        return await self._said(
            found.id, self._live.inbox.deny(self._person, found.id, reason, stop=picked.switched, **self._shown(found))
        )

    async def send_back(self, shown: Shown) -> Request | None:
        """Back to the agent with instructions."""
        found = shown.brief
        told = "What should be different in the next draft? The agent is told, and proposes again."
        heading = f"Send back: {inert(found.title)[:160]}"
        text = await self._ask(Words(heading, self._look(), told, draft=f"send back {found.id}"))
        if text is None:
            return None
        return await self._said(found.id, self._live.inbox.revise(self._person, found.id, text, **self._shown(found)))

    async def modify(self, shown: Shown, request: Request) -> Request | None:
        """With other arguments: checked, judged anew and seen before they are sent."""
        found, args = shown.brief, shown.brief.args
        if found.question is not None:
            raise InvalidDecision("a question has nothing to modify; answer it")
        if not allows_changes(request):
            raise InvalidDecision(ALLOWS_NO_CHANGES)
        while True:
            heading = f"Modify {found.code}: {inert(found.action)[:100]}"
            form = Form(heading, self._look(), args, found.schema, lambda changed: self._candidate(request, changed))
            args = await self._ask(form)
            if args is None:
                return None
            preview = replace(request, candidate=self._candidate(request, args))
            seen = brief(preview, self._live.now())
            confirm = await self._agreed(seen, self._live.why_not(preview))
            if confirm is not None:
                return await self._said(
                    found.id,
                    self._live.inbox.modify(self._person, found.id, args, confirm=confirm, **self._shown(found)),
                )

    def _candidate(self, request: Request, args: Mapping[str, Json]) -> Candidate:
        candidate = self._live.inbox.changed(request, args)
        if candidate.verdict.gate is GateKind.FORBID:
            raise InvalidDecision(f"policy forbids what this would run: {candidate.verdict.because}")
        if candidate.permit_digest == request.candidate.permit_digest:
            raise InvalidDecision("nothing was changed; esc goes back, a approves it as it is")
        return candidate

    async def _agreed(self, seen: Briefing, why_not: str | None) -> str | None:
        """The confirmation for changed arguments (empty where none is wanted), or nothing: back to the form."""
        look = self._look()

        def draw(width: int, whole: bool) -> list[Row]:
            rows = summary(seen, self._live.now(), width, look, whole=whole)
            for sentence in seen.why:
                rows += flow([(sentence, look.ink)], width, (f"{DASH} ", look.faint))
            if why_not:
                told = f"Your change will stand, but then it waits for somebody else: {inert(why_not)}."
                rows += [BLANK, *flow([(told, look.risky)], width)]
            return rows

        if seen.phrase and not why_not:
            typed: str | None = await self._ask(
                Typed("Run this instead?", look, lambda width: draw(width, True), seen.phrase)
            )
            return typed
        yes = "yes, send the change" if why_not else "yes, run exactly this"
        said = await self._ask(Confirm("Run this instead?", look, draw, yes, hides=hidden(seen)))
        return "" if said else None

    async def answer(self, shown: Shown) -> Request | None:
        """The answer to a question."""
        found = shown.brief
        question = found.question
        if question is None:
            raise InvalidDecision("it asks for leave to act; approve or deny it")
        if question.choices:
            return await self.choose_from(shown)
        schema = question.schema or {}
        plain = schema.get("type") in (None, "string")
        told = "Your answer" if plain else "Your answer, as JSON"
        begin = str(question.best_guess) if question.has_best_guess and plain else ""
        begin = inert(begin, lines=True) if len(begin) < 2_000 else ""
        text = await self._ask(
            Words(
                inert(question.text)[:300],
                self._look(),
                told,
                begin=begin,
                check=None if plain else _json_problem,
                draft=f"answer {found.id}",
            )
        )
        if text is None:
            return None
        value = text if plain else restore(text)
        return await self._said(found.id, self._live.inbox.answer(self._person, found.id, value, **self._shown(found)))

    async def _answer_with(self, shown: Shown, number: int) -> Request | None:
        found, question = shown.brief, shown.brief.question
        if question is None or not 0 <= number < len(question.choices):
            raise InvalidDecision(f"there is no answer {number + 1} here")
        choice = question.choices[number]
        look = self._look()

        def draw(width: int, _: bool) -> list[Row]:
            told = flow([(inert(question.text, lines=True)[:2_000], look.claim)], width)
            return [*told, BLANK, *flow([(inert(choice, lines=True), look.strong)], width, ("→ ", look.accent))]

        if not await self._ask(Confirm("Answer with this?", look, draw, "yes, answer")):
            return None
        return await self._said(found.id, self._live.inbox.answer(self._person, found.id, choice, **self._shown(found)))

    async def undo(self, shown: Shown) -> Request | None:
        """What ran is taken back by whoever has the function."""
        found = shown.brief
        if found.undo_until is None or found.undo_until <= self._live.now():
            raise InvalidDecision("it cannot be undone from here: it declares no undo, or the time for it is over")
        if not await self._sure(found, "yes, undo it", "Undo this?"):
            return None
        return await self._said(found.id, self._live.inbox.undo(self._person, found.id))

    async def reconcile(self, shown: Shown) -> Request | None:
        """An unknown outcome is settled by somebody who looked."""
        found, look = shown.brief, self._look()
        picked = await self._ask(
            Pick(
                f"What became of it? {inert(found.title)[:160]}",
                look,
                [told for _, told in _FINDINGS],
                own_words="what you saw, for the record (optional; write it first, then pick)",
                must_pick=True,
            )
        )
        if picked is None or picked.number is None:
            return None
        finding = _FINDINGS[picked.number][0]
        if finding is Finding.RETRY:
            sure = (
                await self._typed(found)
                if found.phrase
                else await self._sure(found, "yes, run it once more", "Run it again?")
            )
            if not sure:
                return None
        return await self._said(found.id, self._live.inbox.reconcile(self._person, found.id, finding, picked.text))

    async def review(self, shown: Shown, opinion: Opinion | None) -> Request | None:
        """A word on what already ran."""
        note = ""
        if opinion is None:
            heading = f"Review: {inert(shown.brief.title)[:160]}"
            choices = ("Accept: it was right to run", "Flag: it should not have run like this")
            picked = await self._ask(
                Pick(heading, self._look(), choices, own_words="a note (optional)", must_pick=True)
            )
            if picked is None or picked.number is None:
                return None
            opinion, note = (Opinion.ACCEPTED, Opinion.FLAGGED)[picked.number], picked.text
        elif opinion is Opinion.FLAGGED:
            text = await self._ask(Words("Flag it", self._look(), "What was wrong with it?"))
            if text is None:
                return None
            note = text
        return await self._said(shown.brief.id, self._live.inbox.review(self._person, shown.brief.id, opinion, note))

    async def _sure(self, found: Briefing, yes: str, heading: str) -> bool:
        look = self._look()

        def draw(width: int, whole: bool) -> list[Row]:
            return summary(found, self._live.now(), width, look, whole=whole)

        return bool(await self._ask(Confirm(heading, look, draw, yes)))

    async def _typed(self, found: Briefing) -> str | None:
        look = self._look()
        typed: str | None = await self._ask(
            Typed(
                "This is critical. Read what will happen.",
                look,
                lambda width: summary(found, self._live.now(), width, look, whole=True),
                found.phrase,
            )
        )
        return typed

    async def _confirmed(
        self, found: Briefing, confirm: str, say: Callable[[str], Awaitable[Request]]
    ) -> Request | None:
        """The decision; where the engine wants words typed that nobody had asked for yet, they are asked for."""
        try:
            return await self._said(found.id, say(confirm))
        except ConfirmationNeeded as wanted:
            if confirm:
                raise
            typed = await self._typed(replace(found, phrase=wanted.phrase))
            return None if typed is None else await self._said(found.id, say(typed))


def _json_problem(text: str) -> str:
    try:
        restore(text)
    except json.JSONDecodeError as problem:
        return f"that is not JSON (line {problem.lineno}); text needs quotes"
    except (ValueError, RecursionError):
        return "that is not JSON; text needs quotes"
    return ""
