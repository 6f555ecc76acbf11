"""The card of one request, drawn from its `Briefing` and from nothing else: facts first, the agent's words last."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.cells import cell_len
from rich.segment import Segment

from assentry.cli.screen.fields import fields, folds, one_line
from assentry.cli.screen.lines import BLANK, DASH, Piece, Row, boxed, chips, cut, flow, inert, line, spread
from assentry.cli.screen.look import PLAIN, Look, mark, mark_of
from assentry.cli.screen.tones import WAYS, paint
from assentry.cli.sections import rows_of
from assentry.core.action import Json
from assentry.core.briefing import Briefing, Difference, OptionLine
from assentry.core.request import Kind, Review, State
from assentry.core.text import ago, counted, left, span
from assentry.telling.background import Background, first_parts, last_parts

SOON = timedelta(minutes=10)
_TITLE_ROWS = 4
_CLAIM_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class Shown:
    """A request as it is before a person: its briefing, why they may not decide it, what is folded or never opened."""

    brief: Briefing
    why_not: str | None = None
    whole: bool = False
    hides: str = ""
    """What of the arguments was never opened; while there is something, it cannot be approved."""
    about: Background | None = None
    """Its run and its drafts, once they are read."""


def hidden(brief: Briefing) -> str:
    """What of the arguments a card leaves out until it is opened."""
    if brief.kind is Kind.QUESTION:
        return ""
    return "; ".join(f"{fold.name}: {fold.hidden}" for fold in folds(brief.args))


def time_words(brief: Briefing, now: datetime) -> str:
    """The time left and what happens then; for what has run, how long it can be undone."""
    if brief.state is not State.PENDING:
        if brief.undo_until is not None and brief.undo_until > now:
            return f"can be undone for {span(brief.undo_until - now)}"
        return str(brief.state)
    if brief.ends_at is None:
        return f"{brief.time_left}, {brief.then}" if brief.time_left else brief.then
    return f"{left(brief.ends_at - now)}, then {brief.then}"


def is_soon(brief: Briefing, now: datetime) -> bool:
    """Whether the time left is nearly used up."""
    return brief.ends_at is not None and brief.ends_at - now < SOON


def head(brief: Briefing, now: datetime, width: int, look: Look) -> list[Row]:
    """What stays in sight while the card scrolls: risk, time left and what happens then, the consequence."""
    found = mark(brief, look)
    rows = [line((f" ▌ {cut(inert(text), width - 4)} ".ljust(width), look.loud)) for text in brief.warnings[:3]]
    when = time_words(brief, now)
    hurry = look.danger if is_soon(brief, now) else look.strong if brief.ends_at else look.soft
    about = f"  {brief.code} · {inert(brief.agent)} · {ago(now - brief.asked_at)}"
    mark_words: list[Piece] = [(f"{found.rail} ", found.style), (f"{found.shape} {found.word}", found.style)]
    if cell_len(about) + cell_len(when) + 16 > width and len(when) > width // 2:
        rows.append(line(*mark_words, (cut(about, width - 14), look.faint)))
        rows += flow([(when, hurry)], width, (f"{found.rail} ", found.style))
    else:
        about = cut(about, width - cell_len(when) - len(found.word) - 6)
        rows.append(spread([*mark_words, (about, look.faint)], [(when, hurry), (" ", PLAIN)], width))
    title = flow([(inert(brief.title)[:600], look.strong)], width - 1, (f"{found.rail} ", found.style), 2)
    if len(title) > _TITLE_ROWS:
        title = [*title[: _TITLE_ROWS - 1], line((f"{found.rail} ", found.style), ("… the whole is below", look.faint))]
    return [*rows, title[0], *([Segment(f"{found.rail} ", found.style), *row[1:]] for row in title[1:])]


def body(shown: Shown, now: datetime, width: int, look: Look) -> list[Row]:
    """The rest of the card, in the order in which it matters."""
    brief = shown.brief
    rows = [BLANK, *_facts(brief, width, look)]
    if shown.why_not and brief.state is State.PENDING:
        rows += [BLANK, *flow([(f"You cannot decide this: {inert(shown.why_not)}.", look.risky)], width)]
    rows += _outcome(brief, width, look, whole=shown.whole)
    rows += _why(brief, width, look)
    if shown.about is not None:
        first = first_parts(shown.about, now, WAYS, whole=shown.whole, history=shown.whole)
        rows += rows_of(first, width, paint(look))
    rows += _question(brief, width, look)
    rows += _options(brief, width, look)
    rows += _runs(shown, width, look)
    rows += changes(brief.differences, width, look, "What was changed since it was asked")
    rows += _declared(brief, width, look)
    rows += _people(brief, now, width, look)
    if shown.about is not None:
        rows += rows_of(last_parts(shown.about, now, whole=shown.whole), width, paint(look))
    rows += _claims(brief, width, look, whole=shown.whole)
    policy = f" · policy {brief.policy_version}" if brief.policy_version else ""
    rows += [
        BLANK,
        line((cut(f"digest {brief.digest[:16]}…{policy} · {brief.gate} gate · J raw JSON", width), look.faint)),
    ]
    return rows


def changes(found: Iterable[Difference], width: int, look: Look, title: str) -> list[Row]:
    """What was asked for and what it is now, by name."""
    rows: list[Row] = []
    for each in found:
        name = inert(each.name)[:60]
        rows += flow([(one_line(each.before), look.gone)], width, (f"- {name}  ", look.gone))
        rows += flow([(one_line(each.after), look.added)], width, (f"+ {name}  ", look.added))
        if isinstance(each.before, list) and isinstance(each.after, list):
            rows += _list_change(each.before, each.after, width, look)
    return [BLANK, _heading(title, look), *rows] if rows else []


def exactly(action: str, args: Mapping[str, Json], width: int, look: Look, *, whole: bool) -> list[Row]:
    """An action and its arguments in a box, from the stored bytes."""
    inner = width - 4
    rows = fields(args, inner, look, whole=whole, action=action)
    return boxed(rows, width, look.line)


def _heading(text: str, look: Look) -> Row:
    return line((text, look.soft + look.strong))


def _facts(brief: Briefing, width: int, look: Look) -> list[Row]:
    if brief.kind is Kind.QUESTION:
        return []
    labels = [
        (f"! {inert(f.says)}" if f.hurts else inert(f.says), look.hurt if f.hurts else look.chip) for f in brief.facts
    ]
    labels += [(f"! {each.words}", look.hurt) if each.hurts else (each.words, look.chip) for each in brief.effect]
    short = sorted(((cut(text, 60), style) for text, style in labels), key=lambda label: len(label[0]) > 34)
    return [*chips(short, width), *(flow([(inert(brief.grounds), look.soft)], width) if brief.grounds else [])]


def _why(brief: Briefing, width: int, look: Look) -> list[Row]:
    if not brief.why:
        return []
    title = "Why you are asked" if brief.state is State.PENDING else "Why it was gated"
    rows = [BLANK, _heading(title, look)]
    for sentence in brief.why:
        rows += flow([(inert(sentence)[:1_000], look.ink)], width, (f"{DASH} ", look.faint))
    return rows


def _declared(brief: Briefing, width: int, look: Look) -> list[Row]:
    if not brief.declared:
        return []
    rows = [BLANK, _heading("Declared for this action", look)]
    for sentence in brief.declared:
        rows += flow([(inert(sentence)[:1_000], look.ink)], width, (f"{DASH} ", look.faint))
    return rows


def _question(brief: Briefing, width: int, look: Look) -> list[Row]:
    question = brief.question
    if question is None:
        return []
    rows = [BLANK, _heading("The question, as the agent put it", look)]
    rows += boxed(
        flow([(inert(question.text, lines=True), look.claim)], width - 4), width, look.claim_line, dashed=True
    )
    if brief.shown:
        shown = fields(brief.shown, width - 4, look, whole=True)
        rows += [BLANK, _heading("What it shows with it", look), *boxed(shown, width, look.claim_line, dashed=True)]
    for fact in brief.facts:
        rows += flow([(inert(fact.says), look.soft)], width)
    if brief.state is State.PENDING:
        rows += [BLANK, _heading("What you can answer", look)]
        for number, choice in enumerate(question.choices[:9], 1):
            rows += flow([(inert(choice)[:300], look.strong)], width, (f" {number} ", look.key), 4)
        if len(question.choices) > 9:
            rows.append(line((f"    … and {len(question.choices) - 9} more: a lists them", look.soft)))
        if not question.choices:
            rows += flow([("a", look.key), (" opens a line for your answer", look.ink)], width)
    if question.has_best_guess:
        guess = one_line(question.best_guess)
        rows += flow([("Without an answer it assumes: ", look.soft), (guess, look.claim)], width)
    return rows


def _options(brief: Briefing, width: int, look: Look) -> list[Row]:
    if not brief.options:
        return []
    rows = [BLANK, _heading("What you can do" if brief.state is State.PENDING else "What could be done", look)]
    for option in brief.options:
        rows += _option(option, width, look)
    if brief.if_denied and brief.state is State.PENDING:
        rows += flow([("if denied: ", look.faint), (inert(brief.if_denied)[:300], look.soft)], width, ("    ", PLAIN))
    return rows


def _option(option: OptionLine, width: int, look: Look) -> list[Row]:
    key = f" {option.number + 1} " if option.number < 9 else " c "
    label = inert(option.label)[:200]
    pieces: list[Piece] = [(label, look.off if option.forbidden else look.strong)]
    if option.forbidden:
        pieces.append(("  ✕ policy forbids it", look.danger))
    elif option.runs and option.risk is not None:
        if option.reversible:
            pieces.append((f"  ↶ {option.undo}", look.ok))
        risk = mark_of(option.risk, look)
        pieces.append((f"  {risk.shape} {risk.word.lower()}", risk.style))
    if option.phrase and not option.forbidden:
        pieces.append(("  wants typing", look.critical))
    side = "┃" if option.runs and option.reversible and not option.forbidden else " "
    rows = flow(pieces, width - 1, (key, look.off if option.forbidden else look.key), 4)
    told = option.consequence or option.says or ("Nothing runs." if not option.runs else "")
    rows += flow([(inert(told)[:400], look.soft)], width - 1, ("    ", PLAIN)) if told else []
    return [[Segment(side, look.ok), *row] for row in rows]


def _runs(shown: Shown, width: int, look: Look) -> list[Row]:
    brief = shown.brief
    if brief.kind is Kind.QUESTION:
        return []
    rows = [BLANK, _heading(brief.heading, look), *exactly(brief.action, brief.args, width, look, whole=shown.whole)]
    if brief.secrets:
        told = f"{brief.secrets} secret{'s are' if brief.secrets > 1 else ' is'} sealed and put back only where it runs"
        rows += flow([(told, look.soft)], width)
    if not brief.options and brief.if_denied and brief.state is State.PENDING:
        rows += flow([("If you deny: ", look.soft), (inert(brief.if_denied)[:300], look.ink)], width)
    return rows


def _list_change(before: list[Json], after: list[Json], width: int, look: Look) -> list[Row]:
    old, new = {one_line(item) for item in before}, {one_line(item) for item in after}
    rows: list[Row] = []
    for sign, items, style in (("-", sorted(old - new), look.gone), ("+", sorted(new - old), look.added)):
        rows += [line((f"    {sign} ", style), (cut(item, width - 6), style)) for item in items[:6]]
        if len(items) > 6:
            rows.append(line((f"    {sign} … {len(items) - 6:,} more", style)))
    return rows


def _people(brief: Briefing, now: datetime, width: int, look: Look) -> list[Row]:
    rows: list[Row] = []
    if brief.needs > 1:
        given = sum(vote.word in ("approve", "modify", "choose") for vote in brief.votes)
        dots = "●" * min(given, brief.needs) + "○" * max(0, brief.needs - given)
        rows += flow([(f"{dots}  {given} of {brief.needs} approvals", look.strong)], width)
    if brief.reviewers and brief.state is State.PENDING:
        rows += flow([("waits for ", look.soft), (inert(", ".join(brief.reviewers)), look.ink)], width)
    for vote in brief.votes:
        said = f"{inert(vote.by)}: {vote.word}, {ago(now - vote.at)}"
        note = f" “{inert(vote.note)[:300]}”" if vote.note else ""
        rows += flow([(said, look.ink), (note, look.soft)], width, (f"{DASH} ", look.faint))
    return [BLANK, _heading("Who decides", look), *rows] if rows else []


def _outcome(brief: Briefing, width: int, look: Look, *, whole: bool) -> list[Row]:
    if brief.state is State.PENDING:
        return []
    rows = [BLANK, _heading("What became of it", look), *flow([(inert(brief.outcome)[:600], look.ink)], width)]
    if brief.state is State.UNKNOWN:
        told = "It was started and its end was never recorded. Look at the outside world, then press r and say."
        rows += flow([(told, look.risky)], width)
    if brief.review is Review.OPEN:
        ran = "It went ahead on silence" if brief.on_silence else "It ran without waiting"
        rows += flow([(f"{ran}, and somebody should look at it: a accept, f flag.", look.risky)], width)
    if brief.error:
        rows += flow([(inert(brief.error, lines=True)[:2_000], look.danger)], width, ("error  ", look.soft))
    if brief.result is not None:
        rows += fields({"result": brief.result}, width, look, whole=whole)
    return rows


def _claims(brief: Briefing, width: int, look: Look, *, whole: bool) -> list[Row]:
    if not brief.claims:
        return []
    inner = width - 4
    rows: list[Row] = []
    for name in ("why", "goal", "confidence", "cost", "alternatives"):
        if name in brief.claims:
            rows += _claim(name, brief.claims[name], inner, look, whole=whole)
    for name in brief.claims.keys() - {"why", "goal", "confidence", "cost", "alternatives"}:
        rows += _claim(inert(name)[:30], brief.claims[name], inner, look, whole=whole)
    title = [("the agent says — not checked", look.claim)]
    return [BLANK, *boxed(rows, width, look.claim_line, title, dashed=True)]


def _claim(name: str, value: Json, width: int, look: Look, *, whole: bool) -> list[Row]:
    if name == "confidence" and isinstance(value, int | float):
        value = f"{value:.0%}"
    if name == "cost" and isinstance(value, int | float):
        value = f"{value:,.2f}"
    if name == "alternatives" and isinstance(value, list):
        value = "\n".join(f"· {item}" for item in value)
    text = inert(value, lines=True)
    more = (
        ""
        if whole or len(text) <= _CLAIM_CHARACTERS
        else f" … {counted(len(text) - _CLAIM_CHARACTERS, 'more character')}, e opens"
    )
    if more:
        text = text[:_CLAIM_CHARACTERS]
    return flow([(text, look.claim), (more, look.faint)], width, (f"{name}  ".ljust(14), look.faint))


def summary(brief: Briefing, now: datetime, width: int, look: Look, *, whole: bool) -> list[Row]:
    """What somebody is about to allow, for a dialog: the consequence, what hurts, and exactly what runs."""
    rows = [*head(brief, now, width, look), BLANK, *_facts(brief, width, look)]
    rows += changes(brief.differences, width, look, "What is changed")
    return [*rows, BLANK, *exactly(brief.action, brief.args, width, look, whole=whole)]


def option_summary(brief: Briefing, option: OptionLine, width: int, look: Look, *, whole: bool) -> list[Row]:
    """What an option would run instead, and how that differs from what was asked."""
    rows = _option(option, width, look)
    if not option.runs:
        return [*rows, BLANK, *flow([("Nothing runs; the agent is told and plans on without it.", look.ink)], width)]
    if option.action == brief.action:
        names = sorted(brief.args.keys() | option.args.keys())
        pairs = [Difference(name, brief.args.get(name), option.args.get(name)) for name in names]
        different = [pair for pair in pairs if pair.before != pair.after]
        rows += changes(different, width, look, "Instead of what was asked")
    return [*rows, BLANK, *exactly(option.action, option.args, width, look, whole=whole)]
