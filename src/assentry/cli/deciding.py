"""Looking at what waits, and deciding it: pending, show, approve, deny, modify, choose, answer, revise."""

import sys
from dataclasses import replace
from typing import Annotated

import typer

from assentry.assemble import Desk
from assentry.cli import asking, changing
from assentry.cli.card import print_card
from assentry.cli.plain import print_json
from assentry.cli.print import banner
from assentry.cli.requests import at_hand, hint, request_document, run_codes, run_named, standing, states, table, told
from assentry.cli.session import SURFACE, AsJson, at_desk, can_ask
from assentry.core.action import Risk
from assentry.core.request import Kind, State
from assentry.engine.chronicle import Chronicle
from assentry.engine.inbox import WAITING
from assentry.ports import Filter
from assentry.telling.background import background, background_document
from assentry.telling.card_document import document

app = typer.Typer()

Id = Annotated[str, typer.Argument(metavar="ID", help="The code on the card, or the start of it.", show_default=False)]
Note = Annotated[str, typer.Option("--note", "-n", help="Kept with the decision.")]
Digest = Annotated[str, typer.Option(help="The digest under the card that was shown; refused if it is another now.")]
Confirm = Annotated[str, typer.Option(help="What a critical action wants typed.", metavar="PHRASE")]


@app.command()
def pending(
    ctx: typer.Context,
    risk: Annotated[Risk | None, typer.Option(help="Only of this risk.")] = None,
    agent: Annotated[str, typer.Option(help="Only of this agent.")] = "",
    state: Annotated[list[str] | None, typer.Option(help="Another state than pending; `all` for every one.")] = None,
    text: Annotated[str, typer.Option(help="Only with words that begin like these: title, action, code.")] = "",
    run: Annotated[str, typer.Option(help="Only of this run: its code, or the start of it.", metavar="RUN")] = "",
    review: Annotated[bool, typer.Option("--review", help="What ran and waits for review.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at once.")] = 50,
    after: Annotated[str, typer.Option(help="Where the page before ended.", metavar="CURSOR")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Stay, and draw anew when something changes.")] = False,
    as_json: AsJson = False,
) -> None:
    """List what waits for a person, most urgent first.

    Example: assentry pending --risk critical --agent payments
    """
    wanted = Filter(
        states(state) if state else WAITING.states if not review else (),
        agent=agent, risk=str(risk) if risk else "", text=text, review_open=review,
    )  # fmt: skip

    async def work(desk: Desk) -> None:
        narrowed = replace(wanted, run=await run_named(desk, run)) if run else wanted
        page = await desk.inbox.page(narrowed, after=after, limit=limit)
        now = await desk.store.now()
        cards = [desk.inbox.card(request, now) for request in page.requests]
        if as_json:
            mode = str(desk.judgement.policy.mode)
            return print_json({"mode": mode, "requests": [document(card) for card in cards], "next": page.next})
        banner(desk.judgement.policy, desk.judgement.switches)
        codes = await run_codes(desk, cards)
        return table(cards, now, "nothing waits" if narrowed == WAITING else "nothing fits", page.next, codes)

    if watch:
        from assentry.cli.watching import keep_drawing

        return keep_drawing(ctx, work, as_json=as_json)
    return at_desk(ctx, work)


@app.command()
def show(
    ctx: typer.Context,
    request_id: Id,
    full: Annotated[bool, typer.Option("--full", help="Nothing folded.")] = False,
    history: Annotated[bool, typer.Option("--history", help="Every draft, and what was said of each.")] = False,
    seen: Annotated[bool, typer.Option("--seen", help="With --json: the caller shows it to you now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the whole card of one request.

    Example: assentry show 7k --full
    """

    async def work(desk: Desk) -> None:
        request = await desk.inbox.find(request_id)
        now = await desk.store.now()
        card = desk.inbox.card(request, now)
        person, why_not = standing(desk, request)
        about = await background(_story(desk), request)
        if as_json:
            you, beyond = person.name if person else "", background_document(about)
            print_json(request_document(desk, card, you=you, why_not=why_not, background=beyond))
        else:
            banner(desk.judgement.policy, desk.judgement.switches)
            print_card(card, now, whole=full, hint=hint(card, why_not), about=about, history=history)
        at_a_terminal = any(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
        if person is not None and not why_not and (seen if as_json else at_a_terminal):
            await desk.inbox.seen(person, request.id)

    at_desk(ctx, work)


@app.command()
def approve(
    ctx: typer.Context,
    request_id: Id,
    confirm: Confirm = "",
    note: Note = "",
    digest: Digest = "",
    as_json: AsJson = False,
) -> None:
    """Let it run, exactly as asked.

    On a terminal what is dangerous is shown first and asks back, and for what is critical a phrase has to be typed;
    Enter alone approves nothing. With --digest, which `assentry show` prints, nothing is asked.

    Example: assentry approve 7k --note "checked with Ann"
    """

    async def work(desk: Desk) -> None:
        person, request, card, now = await at_hand(desk, request_id)
        typed = confirm
        if card.state is State.PENDING and card.kind is Kind.ACTION:
            typed = asking.confirmation(
                card, now, verb="approve", phrase=card.phrase, risk=card.risk, args=card.args,
                confirm=confirm, digest=digest, as_json=as_json,
                about=await background(_story(desk), request) if can_ask(as_json=as_json) else None,
            )  # fmt: skip
        after = await desk.inbox.approve(
            person, request.id, note=note, seen_digest=digest or card.digest, confirm=typed, surface=SURFACE
        )
        await told(desk, after, "approve", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def deny(
    ctx: typer.Context,
    request_id: Id,
    reason: Annotated[str, typer.Option("--reason", "-r", help="What the agent is told, and plans on with.")] = "",
    stop: Annotated[bool, typer.Option("--stop", help="End the whole run.")] = False,
    digest: Digest = "",
    as_json: AsJson = False,
) -> None:
    """Refuse it, with the reason that the agent is told.

    Example: assentry deny 7k --reason "only files older than a year"
    """

    async def work(desk: Desk) -> None:
        person, request, card, _ = await at_hand(desk, request_id, denies=True)
        why = reason
        if card.state is State.PENDING and card.abandoned_at is None:
            why = asking.words(
                "Why? The agent is told: ", reason, "a denial needs a reason: --reason \"…\"", as_json=as_json
            )  # fmt: skip
        seen_digest = digest or card.digest
        after = await desk.inbox.deny(person, request.id, why, stop=stop, seen_digest=seen_digest, surface=SURFACE)
        await told(desk, after, "deny", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def modify(
    ctx: typer.Context,
    request_id: Id,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="One argument anew; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", help="Leave one argument out.", metavar="NAME")] = None,
    args: Annotated[str, typer.Option(help="All arguments anew.", metavar="JSON")] = "",
    edit: Annotated[bool, typer.Option("--edit", help="Change them in $EDITOR, then confirm the difference.")] = False,
    confirm: Confirm = "",
    note: Note = "",
    digest: Digest = "",
    as_json: AsJson = False,
) -> None:
    """Let it run with other arguments, judged anew.

    Example: assentry modify 7k --set pattern='*.tmp' --set keep=5
    """  # fmt: skip
    if sum(map(bool, (set_ or unset, args, edit))) != 1:
        raise typer.BadParameter("say what to change: --set NAME=VALUE, --args JSON, or --edit")

    async def work(desk: Desk) -> None:
        person, request, card, _ = await at_hand(desk, request_id)
        typed, changed = confirm, dict(card.args)
        if card.state is State.PENDING:
            changed = changing.arguments(desk.inbox, request, card, set_ or [], unset or [], args, edit=edit)
            typed = changing.agreed(
                desk.inbox, request, card, changed,
                asks=edit, confirm=confirm, as_json=as_json,
            )  # fmt: skip
        after = await desk.inbox.modify(
            person, request.id, changed, note=note, seen_digest=digest or card.digest, confirm=typed, surface=SURFACE
        )
        await told(desk, after, "modify", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def choose(
    ctx: typer.Context,
    request_id: Id,
    number: Annotated[int, typer.Argument(metavar="N", help="As numbered on the card.", show_default=False)],
    confirm: Confirm = "",
    note: Note = "",
    digest: Digest = "",
    as_json: AsJson = False,
) -> None:
    """Take one of the options on the card.

    Example: assentry choose 7k 2
    """

    async def work(desk: Desk) -> None:
        person, request, card, now = await at_hand(desk, request_id)
        typed = confirm
        option = card.options[number - 1] if 0 < number <= len(card.options) else None
        if card.state is State.PENDING and option is not None and not option.forbidden:
            typed = asking.confirmation(
                card, now, verb="choose", phrase=option.phrase, risk=option.risk, args=option.args,
                confirm=confirm, digest=digest, as_json=as_json,
            )  # fmt: skip
        seen_digest = digest or card.digest
        after = await desk.inbox.choose(
            person, request.id, number - 1, note=note, seen_digest=seen_digest, confirm=typed, surface=SURFACE
        )
        await told(desk, after, "choose", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def answer(
    ctx: typer.Context,
    request_id: Id,
    value: Annotated[str, typer.Argument(metavar="ANSWER", help="Text, or the number of a choice.")] = "",
    json_value: Annotated[str, typer.Option(help="An answer that is not text.", metavar="JSON")] = "",
    note: Note = "",
    digest: Digest = "",
    as_json: AsJson = False,
) -> None:
    """Answer an agent's question.

    Example: assentry answer 7k "the newer one"
    """

    async def work(desk: Desk) -> None:
        person, request, card, _ = await at_hand(desk, request_id)
        given = changing.an_answer(card.question, value, json_value)
        seen_digest = digest or card.digest
        after = await desk.inbox.answer(
            person, request.id, given, note=note, seen_digest=seen_digest, surface=SURFACE
        )  # fmt: skip
        await told(desk, after, "answer", as_json=as_json)

    at_desk(ctx, work)


@app.command()
def revise(
    ctx: typer.Context,
    request_id: Id,
    instructions: Annotated[str, typer.Argument(help="What the next draft should be like.")] = "",
    digest: Digest = "",
    as_json: AsJson = False,
) -> None:
    """Send it back with instructions for another draft.

    Example: assentry revise 7k "shorter, and without the price"
    """

    async def work(desk: Desk) -> None:
        person, request, card, _ = await at_hand(desk, request_id)
        wanted = instructions
        if card.state is State.PENDING:
            missing = f'sending back needs instructions: assentry revise {card.code} "…"'
            wanted = asking.words("What should the next draft be like? ", instructions, missing, as_json=as_json)
        seen_digest = digest or card.digest
        after = await desk.inbox.revise(person, request.id, wanted, seen_digest=seen_digest, surface=SURFACE)
        await told(desk, after, "revise", as_json=as_json)

    at_desk(ctx, work)


def _story(desk: Desk) -> Chronicle:
    return desk.chronicle
