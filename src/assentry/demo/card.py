"""A waiting request as a compact card, drawn from its briefing and from nothing else."""

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from assentry.core.action import Json, Risk
from assentry.core.briefing import Briefing, OptionLine
from assentry.core.request import Kind
from assentry.core.text import counted, shortened, visible

WIDEST = 100
_SIGN = {Risk.SAFE: "●", Risk.RISKY: "▴", Risk.DANGEROUS: "▲", Risk.CRITICAL: "◆"}
_COLOUR = {Risk.SAFE: "green", Risk.RISKY: "yellow", Risk.DANGEROUS: "red", Risk.CRITICAL: "magenta"}
_BODY_LINES = 12


def card(briefing: Briefing, width: int) -> RenderableType:
    """What will happen, why a person is asked, what they can do and what each choice leads to."""
    is_question = briefing.kind is Kind.QUESTION
    colour = "blue" if is_question else _COLOUR[briefing.risk]
    head = "? Question" if is_question else f"{_SIGN[briefing.risk]} {str(briefing.risk).capitalize()}"
    title = Text.assemble((head, f"bold {colour}"), f"  request {briefing.code}  {plain(briefing.agent)} ")
    parts = [part for part in _parts(briefing, is_question) if part is not None]
    return Panel(
        Group(*parts),
        box=ROUNDED,
        title=title,
        title_align="left",
        subtitle=_time(briefing, colour),
        subtitle_align="right",
        border_style=colour,
        padding=(0, 1),
        width=min(width, WIDEST),
    )


def plain(text: str) -> str:
    """Agent text on one line, with nothing hidden in it."""
    return visible(text, lines=False)


def _parts(briefing: Briefing, is_question: bool) -> list[RenderableType | None]:
    question = briefing.question
    if is_question and question is not None:
        guess = f" (the agent's guess: {plain(str(question.best_guess))})" if question.has_best_guess else ""
        choices = [_choice(number, plain(text)) for number, text in enumerate(question.choices, 1)]
        return [Text(plain(briefing.title), "bold"), Text(), *choices, Text(f"     without an answer{guess}", "dim")]
    return [
        Text(plain(briefing.title), "bold"),
        _facts(briefing),
        Text(plain(briefing.grounds), "dim"),
        *(Text(plain(warning), "bold red") for warning in briefing.warnings),
        Text(),
        Text("Why you are asked", "dim"),
        *(Padding(Text(f"- {plain(reason)}"), (0, 0, 0, 1)) for reason in briefing.why),
        _claims(briefing),
        Text(),
        *(
            [Text("What you can do", "dim")]
            if briefing.options
            else [Text("Exactly this runs", "dim"), _args(briefing)]
        ),
        *(_option(option) for option in briefing.options),
    ]


def _time(briefing: Briefing, colour: str) -> Text:
    if briefing.ends_at is None:
        return Text(f" {briefing.time_left}; {briefing.then} ", colour)
    return Text(f" {briefing.time_left} left, then {briefing.then} ", colour)


def _facts(briefing: Briefing) -> Text:
    """What Assentry found out, the hurting parts marked; paths of many files would say nothing."""
    told = [(fact.says, fact.hurts) for fact in briefing.facts if not (fact.name == "paths" and _is_many(fact.value))]
    told += [(each.words, each.hurts) for each in briefing.effect]
    line = Text()
    for says, hurts in told:
        line.append(" · " if line else "", "dim")
        line.append(plain(shortened(says, 90)), "red" if hurts else "")
    return line


def _is_many(value: Json) -> bool:
    return isinstance(value, list) and len(value) > 2


def _claims(briefing: Briefing) -> RenderableType | None:
    """The agent's own words, marked as such."""
    why = briefing.claims.get("why")
    if not why:
        return None
    said = (f"“{plain(shortened(str(why), 300))}”", "italic")
    return Padding(Text.assemble(("The agent says: ", "dim"), said), (0, 0, 0, 1))


def _option(option: OptionLine) -> RenderableType:
    tag = Text()
    if option.forbidden:
        tag = Text("  forbidden", "red")
    elif option.runs:
        tag = Text(f"  {option.undo}", "green" if option.reversible else "red")
    return _choice(option.number + 1, plain(option.label), tag, plain(option.consequence))


def _choice(number: int, label: str, tag: Text | None = None, consequence: str = "") -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=3, justify="right")
    grid.add_column()
    said = Text.assemble((label, "bold"), tag or Text())
    if consequence:
        said.append(f"  {consequence}", "dim")
    grid.add_row(Text(str(number), "bold reverse"), said)
    return grid


def _args(briefing: Briefing) -> RenderableType:
    """The arguments that run, each on a line of its own, long ones shortened and saying so."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column()
    grid.add_row(Text(" action", "dim"), Text(plain(briefing.action)))
    for name, value in briefing.args.items():
        grid.add_row(Text(f" {plain(name)}", "dim"), Text(value_text(value)))
    return grid


def value_text(value: Json) -> str:
    """An argument as text for people."""
    if isinstance(value, list):
        first = ", ".join(plain(shortened(str(item), 60)) for item in value[:3])
        return first if len(value) <= 3 else f"{len(value)}: {first}, …"
    lines = visible(str(value)).strip().splitlines() or [""]
    shown = [shortened(line, 200) for line in lines[:_BODY_LINES]]
    if len(lines) > _BODY_LINES:
        shown.append(f"… {counted(len(lines) - _BODY_LINES, 'more line')}")
    return "\n".join(shown)
