"""The four answers about an action in words, and what each of them rests on.

An answer that nobody declared is marked where it is told: `probably cannot be undone` is a guess from a name or a
description, `cannot be undone` was declared, is known of this action, or shows in the arguments.
"""

from dataclasses import dataclass

from assentry.core.action import Action, Assessment, Basis, Reach
from assentry.core.catalogue import find_entry
from assentry.core.names import split_name

_GUESSES = (Basis.NAMES, Basis.UNKNOWN)
_QUESTIONS = ("reversible", "reach", "outside", "money")
_SHOWN_BY = {"reversible": "destroys", "outside": "external", "money": "currency"}
"""Facts in the arguments that make an answer more than a guess."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One of the four answers: what it says, whether that hurts, and whether it is only a guess."""

    says: str
    hurts: bool
    basis: Basis

    @property
    def is_guess(self) -> bool:
        return self.basis in _GUESSES

    @property
    def words(self) -> str:
        """What it says, marked where it is a guess."""
        return f"probably {self.says}" if self.is_guess else self.says


def answers(action: Action, assessment: Assessment) -> tuple[Answer, ...]:
    """The answers about this call that say something, whether it can be undone first."""
    effect = assessment.effect
    bases = _bases(action, assessment)
    local = "changes only this machine" if effect.outside else "stays on this machine"
    reach = {
        Reach.NOTHING: "changes nothing", Reach.LOCAL: local, Reach.SERVICE: "changes a service",
        Reach.ORGANISATION: "reaches the whole organisation",
    }[effect.reach]  # fmt: skip
    undo = "can be undone" if effect.reversible else "cannot be undone"
    found = [
        Answer(undo, not effect.reversible, bases["reversible"]),
        Answer(reach, effect.reach is Reach.ORGANISATION, bases["reach"]),
    ]
    if effect.outside:
        found.append(Answer("leaves our systems", True, bases["outside"]))
    if effect.money:
        found.append(Answer("costs money", True, bases["money"]))
    return tuple(found)


def undo_answer(action: Action, assessment: Assessment) -> Answer:
    """Whether it can be undone."""
    return answers(action, assessment)[0]


def grounds(action: Action, assessment: Assessment) -> str:
    """Why the answers are as they are, every reason in order; what is a guess is said to be one first."""
    return " ".join(each for each in (guess_mark(action, assessment), *assessment.reasons) if each)


def guess_mark(action: Action, assessment: Assessment) -> str:
    """What “probably” means among the answers, where it stands there."""
    if not any(answer.is_guess for answer in answers(action, assessment)):
        return ""
    return f"“Probably” marks a guess from the name or description of {action.name}; nobody declared it."


def _bases(action: Action, assessment: Assessment) -> dict[str, Basis]:
    """What each answer rests on: the operator's word, what the arguments show, or what the whole action rests on."""
    facts = {fact.name: fact for fact in assessment.facts}
    effect, declared = assessment.effect, {word.about for word in assessment.words if word.counts}
    otherwise = assessment.basis if assessment.basis is not Basis.DECLARED else _without_declaration(action)
    bases = {name: Basis.DECLARED if name in declared else otherwise for name in _QUESTIONS}
    if otherwise in _GUESSES:
        shown = {name for name, fact in _SHOWN_BY.items() if fact in facts}
        if effect.reach is Reach.ORGANISATION and "environment" in facts:
            shown.add("reach")
        if effect.is_read and "only_reads" in facts:
            shown |= set(bases)
        bases |= {name: Basis.CATALOGUE for name in shown if bases[name] is otherwise}
    return bases


def _without_declaration(action: Action) -> Basis:
    """What the answers rest on that the operator left open."""
    name = split_name(action.name)
    if find_entry(name) is not None:
        return Basis.CATALOGUE
    return Basis.NAMES if name.family is not None else Basis.UNKNOWN
