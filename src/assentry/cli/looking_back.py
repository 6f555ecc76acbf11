"""What somebody should look at afterwards: what went ahead because nobody objected, and what ran without waiting."""

from datetime import timedelta

from assentry.assemble import Desk
from assentry.cli.plain import print_json
from assentry.cli.print import banner, heading, say
from assentry.cli.requests import run_codes, table
from assentry.core.briefing import brief
from assentry.core.request import State
from assentry.ports import Filter
from assentry.telling.card_document import document

_GUESSES_SHOWN = timedelta(days=1)
_GUESSES_READ = 200


async def afterwards(desk: Desk, *, after: str, limit: int, as_json: bool) -> None:
    """What ran and nobody has looked at yet, silence first; and questions of the last day that nobody answered."""
    page = await desk.inbox.page(Filter(review_open=True), after=after, limit=limit)
    answered = await desk.inbox.page(Filter(states=(State.ANSWERED,)), limit=_GUESSES_READ) if not after else None
    now = await desk.store.now()
    cards = [brief(request, now) for request in page.requests]
    silent, ran = (
        [card for card in cards if card.on_silence],
        [card for card in cards if not card.on_silence],
    )
    asked = [brief(request, now) for request in (answered.requests if answered else ())]
    guessed = [card for card in asked if card.on_silence and now - card.asked_at < _GUESSES_SHOWN]
    if as_json:
        mode = str(desk.judgement.policy.mode)
        groups = {"on_silence": silent, "ran": ran, "guessed": guessed}
        documents = {name: [document(card) for card in found] for name, found in groups.items()}
        return print_json({"mode": mode, **documents, "next": page.next})
    banner(desk.judgement.policy, desk.judgement.switches)
    codes = await run_codes(desk, [*cards, *guessed])
    first = True
    for title, found in (
        ("Went ahead on silence: nobody objected in time", silent),
        ("Ran without waiting, and the policy wants somebody to look", ran),
        ("Questions of the last day that nobody answered: the agent went on with its best guess", guessed),
    ):
        if found:
            if not first:
                say()
            say(heading(title))
            table(found, now, "", "", codes)
            first = False
    if first:
        return say("nothing ran that somebody should look at")
    if cards:
        say()
        say(
            f'assentry review {cards[0].code} accepted   assentry review {cards[0].code} flagged --note "…"',
            style="dim",
        )
    return say(f"more: --after {page.next}", style="dim") if page.next else None
