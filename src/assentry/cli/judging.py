"""An explanation of what a policy says, in a terminal."""

from rich.console import RenderableType
from rich.text import Text

from assentry.cli.plain import print_json
from assentry.cli.print import block, console, grid, inert, risk_mark, section
from assentry.core.explain import Explanation, Match
from assentry.telling.explaining import explanation_document

_MARKS = {Match.CHOSE: ("chose", "bold green"), Match.WOULD_MATCH: ("would match next", "yellow")}


def tell(found: Explanation, source: str, *, as_json: bool) -> None:
    """The explanation was printed."""
    if as_json:
        print_json(explanation_document(found, source))
        return
    block(grid([(Text("by", style="bold"), inert(source)), *_verdict(found)]))
    assessment = found.assessment
    reasons = [inert(f"- {reason}") for reason in assessment.reasons]
    block(section("What it does", _effect(found), *reasons))
    if assessment.facts:
        block(section("Facts", grid((inert(fact.name, "bold"), inert(fact.says)) for fact in assessment.facts)))
    if found.verdict.triggers:
        rows = (
            (inert(each.name, "bold"), inert(f"{each.says} (at least {each.gate})")) for each in found.verdict.triggers
        )
        block(section("Triggers that fired", grid(rows)))
    if found.rules:
        block(
            section("Rules, in order", grid((_rule_row(each.rule, each.match, each.says) for each in found.rules), 3))
        )
    if found.grants:
        grants = ((inert(each.grant, "bold"), inert(each.why_not or "covers it")) for each in found.grants)
        block(section("Grants", grid(grants, widest_name=40)))
    note = "What @guard declares in code is not known here; --irreversible, --outside and the like say it."
    console().print(Text(f"\n{note}", style="dim"), soft_wrap=True)


def _verdict(found: Explanation) -> list[tuple[RenderableType, ...]]:
    verdict = found.verdict
    gate = f"{verdict.observed}, but OBSERVE MODE lets it run" if verdict.observed else str(verdict.gate)
    line = next((each.line for each in found.rules if each.match is Match.CHOSE), 0)
    chose = f'rule "{found.chose}"{f", line {line}" if line else ""}' if found.chose else verdict.rule
    following = f'rule "{found.next_rule}"' if found.next_rule else f"the default for {found.assessment.risk} actions"
    people, approvals, time = (sentence.partition(": ")[2] for sentence in found.lines[-3:])
    told = {
        "gate": gate,
        "because": verdict.because,
        "chosen by": chose,
        **({"without it": following} if found.chose else {}),
        **({"grant": verdict.grant} if verdict.grant else {}),
        "reviewers": people,
        "approvals": approvals,
        "time": time,
    }
    return [(Text(name, style="bold"), inert(value)) for name, value in told.items()]


def _effect(found: Explanation) -> Text:
    effect = found.assessment.effect
    words = ["can be undone" if effect.reversible else "cannot be undone", f"reaches {effect.reach}"]
    words += ["leaves our systems"] * effect.outside + ["costs money"] * effect.money
    return risk_mark(found.assessment.risk).append(f": {', '.join(words)} (by {found.assessment.basis.value})")


def _rule_row(rule: str, match: Match, says: str) -> tuple[RenderableType, ...]:
    words, style = _MARKS.get(match, (match.value, "red" if match is Match.ERROR else "dim"))
    return inert(rule, "bold"), Text(words, style=style), inert(says, style if style == "dim" else "")
