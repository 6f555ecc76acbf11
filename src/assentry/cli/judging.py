"""An explanation of what a policy says, in a terminal."""

from rich.console import RenderableType
from rich.text import Text

from assentry.cli.plain import print_json
from assentry.cli.print import block, console, grid, inert, is_piped, risk_mark, section
from assentry.core.effect_text import guess_mark
from assentry.core.explain import Explanation, Match
from assentry.telling.explaining import explanation_document

_MARKS = {Match.CHOSE: ("chose", "bold green"), Match.WOULD_MATCH: ("would match next", "yellow")}

_WHOLE = 1_000
"""In a pipe no name is broken."""


def tell(found: Explanation, source: str, *, as_json: bool) -> None:
    """The explanation was printed."""
    if as_json:
        print_json(explanation_document(found, source))
        return
    out = console(table=True)
    block(grid([(Text("by", style="bold"), inert(source)), *_verdict(found)]), out)
    assessment = found.assessment
    mark = guess_mark(found.action, assessment)
    reasons = [inert(f"- {reason}") for reason in (*found.declared, mark, *assessment.reasons) if reason]
    block(section("What it does", _effect(found), *reasons), out)
    if assessment.facts:
        block(section("Facts", grid((inert(fact.name, "bold"), inert(fact.says)) for fact in assessment.facts)), out)
    if found.verdict.triggers:
        rows = (
            (inert(each.name, "bold"), inert(f"{each.says} (at least {each.gate})")) for each in found.verdict.triggers
        )
        block(section("Triggers that fired", grid(rows)), out)
    if found.rules:
        considered = (_rule_row(each.rule, each.match, each.says) for each in found.rules)
        block(section("Rules, in order", grid(considered, 3, widest_name=_WHOLE if is_piped() else 28)), out)
    if found.grants:
        grants = ((inert(each.grant, "bold"), inert(each.why_not or "covers it")) for each in found.grants)
        block(section("Grants", grid(grants, widest_name=_WHOLE if is_piped() else 40)), out)
    note = "What @guard declares in code is not known here; --irreversible, --outside and the like say it."
    console().print(Text(f"\n{note}", style="dim"), soft_wrap=True)


def _verdict(found: Explanation) -> list[tuple[RenderableType, ...]]:
    verdict = found.verdict
    gate = f"{verdict.observed}, but OBSERVE MODE lets it run" if verdict.observed else str(verdict.gate)
    line = next((each.line for each in found.rules if each.match is Match.CHOSE), 0)
    chose = f'rule "{found.chose}"{f", line {line}" if line else ""}' if found.chose else verdict.rule
    following = f'rule "{found.next_rule}"' if found.next_rule else f"the default for {found.assessment.risk} actions"
    told = {
        "gate": gate,
        "because": verdict.because,
        "chosen by": chose,
        **({"without it": following} if found.chose else {}),
        **({"grant": verdict.grant} if verdict.grant else {}),
        **({"reviewers": found.asks, "approvals": found.approvals} if found.waits else {}),
        "time": found.time,
    }
    return [(Text(name, style="bold"), inert(value)) for name, value in told.items()]


def _effect(found: Explanation) -> Text:
    words = ", ".join(each.words for each in found.effect)
    return risk_mark(found.assessment.risk).append(f": {words}")


def _rule_row(rule: str, match: Match, says: str) -> tuple[RenderableType, ...]:
    words, style = _MARKS.get(match, (match.value, "red" if match is Match.ERROR else "dim"))
    return inert(rule, "bold"), Text(words, style=style), inert(says, style if style == "dim" else "")
