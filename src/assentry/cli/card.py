"""The card of one request, in the order in which it matters, drawn from its `Briefing` and from nothing else."""

from collections.abc import Mapping
from datetime import datetime

from rich.box import Box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from assentry.cli.fields import Folding, differences, fields, shown
from assentry.cli.print import block, console, grid, inert, mark_of, risk_mark, section
from assentry.cli.sections import Sections
from assentry.core.action import Json
from assentry.core.briefing import Briefing, OptionLine
from assentry.core.decision import Vote
from assentry.core.request import Review, State
from assentry.core.text import ago, span
from assentry.telling.background import Background, Ways, first_parts, last_parts

_DASHED = Box("╭╌┬╮\n╎ ╎╎\n├╌┼┤\n╎ ╎╎\n├╌┼┤\n├╌┼┤\n╎ ╎╎\n╰╌┴╯\n")


def print_card(
    card: Briefing,
    now: datetime,
    *,
    whole: bool,
    hint: str = "",
    about: Background | None = None,
    history: bool = False,
) -> None:
    """The card is on standard output, with what is known beyond it; `hint` is what the reader may do."""
    block(draw(card, now, whole=whole, about=about, history=history))
    if hint:
        console().print(Text("\n").append_text(inert(hint, "dim")), soft_wrap=True)


def draw(
    card: Briefing, now: datetime, *, whole: bool, about: Background | None = None, history: bool = False
) -> RenderableType:
    """The card. Without `whole`, long values are folded."""
    folding = Folding(whole, f"assentry show {card.code} --full")
    parts: list[RenderableType] = [*_head(card, now, about)]
    if card.why:
        sentences = ((Text("-"), inert(sentence)) for sentence in card.why)
        parts.append(section("Why you are asked", grid(sentences)))
    if about is not None:
        parts.append(Sections(first_parts(about, now, _ways(card, about), whole=whole, history=history)))
    if card.question is not None:
        parts.append(section("The question", _question(card, folding)))
        if card.shown:
            parts.append(section("What it shows with it", fields(card.shown, Folding(whole=True))))
    if card.options:
        parts.append(section("What you can do", *(_option(option, folding) for option in card.options)))
    if card.state is State.PENDING:
        parts.append(section("Time", inert(_time(card, now))))
    if card.question is None:
        what = [inert(card.action, "bold"), Padding(fields(card.args, folding), (0, 0, 0, 2)), *_secrets(card)]
        parts.append(section(card.heading, *what, _digest(card, folding)))
    if card.differences:
        parts.append(section("Changed since it was asked", differences(card.differences, folding)))
    if card.declared:
        parts.append(section("Declared for this action", grid((Text("-"), inert(each)) for each in card.declared)))
    if about is not None:
        parts.append(Sections(last_parts(about, now, whole=whole)))
    if card.claims:
        parts += [Text(), _claims(card, folding)]
    parts += _people(card, now)
    parts += _outcome(card, now, folding)
    return Group(*parts)


def is_folded(args: Mapping[str, Json]) -> bool:
    """Whether the short card leaves out a part of these arguments."""
    folding = Folding(whole=False)
    fields(args, folding)
    return folding.folded


def time_words(card: Briefing) -> str:
    """The time left and what happens then, in a few words that fit into a table."""
    if card.state is not State.PENDING:
        return f"{card.state}, on silence" if card.on_silence else str(card.state)
    if card.paused:
        return "paused"
    if card.starts_when_seen:
        return "when seen"
    return f"{card.time_left}, then {card.then}" if card.ends_at is not None else _open_end(card)


def _head(card: Briefing, now: datetime, known: Background | None) -> list[RenderableType]:
    about = [f"request {card.code}", card.agent, f"asked {ago(now - card.asked_at)}"]
    if card.asked_by:
        about.append(f"for {card.asked_by}")
    if card.run:
        run = known.run if known is not None else None
        about.append(f"run {run.code if run is not None else short_run(card.run)}")
    about.append(str(card.state) if card.state is not State.PENDING else f"{card.gate} gate")
    head = grid([(mark_of(card), inert(" · ".join(about)))])
    parts: list[RenderableType] = [head, Padding(inert(card.title, "bold"), (0, 0, 0, 2))]
    facts = Text()
    for fact in card.facts:
        facts.append_text(inert(f"! {fact.says}" if fact.hurts else fact.says, "red" if fact.hurts else ""))
        facts.append(" · ", style="dim")
    facts.append(" · ".join(each.words for each in card.effect))
    parts.append(Padding(facts, (0, 0, 0, 2)))
    if card.grounds:
        parts.append(Padding(inert(card.grounds, "dim"), (0, 0, 0, 2)))
    parts += [Padding(inert(f"! {warning}", "bold yellow"), (0, 0, 0, 2)) for warning in card.warnings]
    return parts


def _ways(card: Briefing, about: Background) -> Ways:
    """How each choice is made with commands."""
    code, run = card.code, about.run.code if about.run is not None else ""
    return Ways(
        approve=f"assentry approve {code}",
        send_back=f'assentry revise {code} "…"',
        pause=f"assentry pause {run}",
        go=f"assentry go {run}",
        deny=f"assentry deny {code} -r …",
        stop=f"assentry deny {code} --stop -r …",
        history=f"every round with its differences: assentry show {code} --history",
    )


def _question(card: Briefing, folding: Folding) -> RenderableType:
    question = card.question
    assert question is not None  # noqa: S101  the caller looked
    rows: list[tuple[RenderableType, ...]] = []
    if question.text != card.title:
        rows.append((Text("asks", style="dim"), inert(question.text, lines=True)))
    for number, choice in enumerate(question.choices, 1):
        rows.append((Text(f"{number}", style="bold"), inert(choice)))
    if question.has_best_guess:
        rows.append((Text("guess", style="dim"), shown(question.best_guess, folding)))
    return grid(rows) if rows else Text("(any answer)", style="dim")


def _option(option: OptionLine, folding: Folding) -> RenderableType:
    label = inert(option.label, "bold")
    if option.risk is not None:
        label.append("  ").append_text(risk_mark(option.risk))
        label.append(f", {option.undo}")
    if option.forbidden:
        label.append("  policy forbids it", style="red")
    lines: list[RenderableType] = [label]
    if option.consequence:
        lines.append(inert(option.consequence))
    if option.runs:
        lines.append(grid([(Text("runs", style="dim"), inert(option.action)), *_option_fields(option, folding)]))
    else:
        lines.append(Text("nothing runs", style="dim"))
    return grid([(Text(f"{option.number + 1}", style="bold"), Group(*lines))])


def _option_fields(option: OptionLine, folding: Folding) -> list[tuple[RenderableType, ...]]:
    return [(inert(name, "dim"), shown(value, folding, 1)) for name, value in option.args.items()]


def _time(card: Briefing, now: datetime) -> str:
    words = [f"{card.time_left} left, then {card.then}" if card.ends_at is not None else _open_end(card)]
    if card.needed_by is not None:
        rest = card.needed_by - now
        words.append(f"needed within {span(rest)}" if rest.total_seconds() > 0 else "it was needed before now")
    if card.if_denied:
        words.append(f"if denied: {card.if_denied}")
    return "; ".join(words)


def _open_end(card: Briefing) -> str:
    return f"{card.time_left}{';' if card.starts_when_seen or card.paused else ','} {card.then}"


def _secrets(card: Briefing) -> list[RenderableType]:
    if not card.secrets:
        return []
    return [Text(f"secrets: {card.secrets}, sealed; each stands above as ⟨secret …⟩ and is filled in when it runs")]


def _digest(card: Briefing, folding: Folding) -> RenderableType:
    """The digest stands only under a whole card: whoever passes it on has had everything before them."""
    if folding.folded:
        return Text(f"digest: shown once nothing is folded: {folding.see}", style="dim")
    return Text(f"digest: {card.digest}", style="dim")


def _claims(card: Briefing, folding: Folding) -> RenderableType:
    return Panel(
        fields(card.claims, folding),
        title=Text("The agent says (unchecked)"),
        title_align="left",
        box=_DASHED,
        border_style="cyan",
    )


def _people(card: Briefing, now: datetime) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if card.needs > 1:
        given = sum(vote.word in ("approve", "modify", "choose") for vote in card.votes)
        lines.append(Text(f"{given} of {card.needs} approvals"))
    if card.reviewers and card.state is State.PENDING:
        lines.append(inert(f"waits for {', '.join(card.reviewers)}"))
    lines += [_vote(vote, now) for vote in card.votes]
    return [section("Votes", *lines)] if lines else []


def _vote(vote: Vote, now: datetime) -> Text:
    note = f": {vote.note}" if vote.note else ""
    via = f" ({vote.surface})" if vote.surface else ""
    return inert(f"{vote.by} said {vote.word} {ago(now - vote.at)}{via}{note}")


def _outcome(card: Briefing, now: datetime, folding: Folding) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if card.outcome:
        lines.append(inert(card.outcome))
    if card.result is not None:
        lines.append(grid([(Text("result", style="bold"), shown(card.result, folding))]))
    if card.error:
        lines.append(inert(f"error: {card.error}", "red"))
    if card.undo_until is not None and card.undo_until > now:
        lines.append(Text(f"can be undone for {span(card.undo_until - now)}: assentry undo {card.code}"))
    if card.state is State.UNKNOWN:
        told = f"nobody knows whether it happened: look, then assentry reconcile {card.code} done|failed|retry"
        lines.append(Text(told, style="bold yellow"))
    if card.review is Review.OPEN:
        ran = "it went ahead on silence" if card.on_silence else "it ran without waiting"
        lines.append(Text(f"{ran}; somebody should look at it: assentry review {card.code} accepted|flagged"))
    return [section("Outcome", *lines)] if lines else []


def short_run(run: str) -> str:
    """A run as it is named on a card: its name, or as much of its id as finds it again."""
    return run[:13] if len(run) == 36 and run.count("-") == 4 else run[:40]
