"""What people and programs declared of an action, and whose word counts where they differ.

The operator speaks twice: in code (the decorator, `effects=`, `declared=`) and in the policy file. Of the two the
stricter word stands, unless the policy says in so many words that it stands instead of the code. Below both comes
whatever offers the action (the hints of a server, an agent elsewhere): it may fill what the operator left open where
the operator trusts it, and otherwise only raise. What names and the catalogue say lives in `classify`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from assentry.core.action import NOTHING_DECLARED, QUESTIONS, Declaration, Effect, Ordered, Reach, Risk, Speaker, Word

_MILDEST = {"reversible": True, "reach": Reach.NOTHING, "outside": False, "money": False}


@dataclass(frozen=True, slots=True)
class Said:
    """Everything that was declared of one action, by speaker."""

    code: Declaration = NOTHING_DECLARED
    policy: Declaration = NOTHING_DECLARED
    instead_of_code: bool = False
    """The policy's answers replace those of the code, also where they are milder."""
    because: str = ""
    """Why the policy says so."""
    source: Declaration = NOTHING_DECLARED
    """What says of itself whoever offers the action."""
    trusted: bool = True
    """The operator vouches for the source, and for the name, description and schema that it gave."""


NOTHING_SAID = Said()


@dataclass(frozen=True, slots=True)
class Settled:
    """What holds of all that was declared."""

    declaration: Declaration
    answers_bind: bool = False
    """The declared risk and the answers are of different speakers: the risk is at least what the answers come to."""


def settled(said: Said) -> Settled:
    """Whose word counts, for each of the four questions and for the risk."""
    operator = _over(Settled(said.code), said.policy, replaces=said.instead_of_code)
    if not said.trusted or said.source.is_empty:
        return operator
    filled = _over(Settled(said.source), operator.declaration, replaces=True)
    return Settled(filled.declaration, filled.answers_bind or operator.answers_bind)


def _over(lower: Settled, upper: Declaration, *, replaces: bool) -> Settled:
    """Both words at once: where both answer, the upper one if it replaces, and otherwise the stricter."""
    below = lower.declaration
    answers = {}
    for name in QUESTIONS:
        mine, theirs = getattr(upper, name), getattr(below, name)
        if mine is None or theirs is None:
            answers[name] = theirs if mine is None else mine
        else:
            answers[name] = mine if replaces else stricter_answer(name, mine, theirs)
    if replaces and upper.is_complete and upper.risk is None:
        answers["risk"], binds = None, False
    elif upper.risk is None:
        binds = below.risk is not None and _is_strict(upper)
    elif below.risk is None:
        binds = not replaces and _is_strict(below)
    else:
        binds = False
    return Settled(Declaration(**answers), lower.answers_bind or binds)


def stricter_answer(name: str, one: object, other: object) -> object:
    """Of two answers to the same question, the one that is worse."""
    if isinstance(one, Ordered) and isinstance(other, Ordered):
        return max(one, other, key=lambda each: each.rank)
    return one if one != _MILDEST[name] else other


def _is_strict(said: Declaration) -> bool:
    """Some answer is not the mildest that there is."""
    return any(getattr(said, name) != _MILDEST[name] for name in said.answers)


def words_of(said: Said, effect: Effect, risk: Risk) -> tuple[Word, ...]:
    """Who said what, and whether it counts, given what the action came to."""
    speakers = ((Speaker.CODE, said.code), (Speaker.POLICY, said.policy), (Speaker.SOURCE, said.source))
    found = []
    for name in QUESTIONS:
        held = risk if name == "risk" else getattr(effect, name)
        for speaker, declaration in speakers:
            answer = getattr(declaration, name)
            if answer is None:
                continue
            counts = answer == held
            if speaker is Speaker.SOURCE and not said.trusted:
                counts = counts and answer not in (_MILDEST.get(name), Risk.SAFE)
            is_policy = speaker is Speaker.POLICY
            instead = is_policy and said.instead_of_code and getattr(said.code, name) not in (None, answer)
            spelled = answer if isinstance(answer, bool) else str(answer)
            found.append(Word(speaker, name, spelled, counts, said.because if is_policy else "", instead))
    return tuple(found)


_NAMES = {Speaker.CODE: "the code", Speaker.POLICY: "the policy", Speaker.SOURCE: "whoever offers it"}
_ASKED = {
    "reversible": "can be undone",
    "reach": "how far it reaches",
    "outside": "leaves our systems",
    "money": "costs money",
    "risk": "risk level",
}


def who_said(words: Iterable[Word]) -> tuple[str, ...]:
    """Who declared what, a sentence for each question that anybody answered."""
    asked: dict[str, list[Word]] = {}
    for word in words:
        asked.setdefault(word.about, []).append(word)
    return tuple(_sentence(_ASKED[name], given) for name, given in asked.items())


def _sentence(question: str, given: list[Word]) -> str:
    counted = [word for word in given if word.counts]
    others = [word for word in given if not word.counts]
    if not counted:
        told = "; ".join(f"{_name(word)} says {_answer(word)}" for word in others)
        return f"{question}: {told}, not counted{': the answers come to more' if others[0].about == 'risk' else ''}"
    verb = "says" if len(counted) == 1 else "say"
    said = f"{question}: {_answer(counted[0])}, {verb} {' and '.join(_name(word) for word in counted)}"
    if any(word.instead for word in counted):
        code = [word for word in others if word.by is Speaker.CODE]
        others = [word for word in others if word.by is not Speaker.CODE]
        said += "".join(f" instead of the code, which says {_answer(word)}" for word in code)
    return said + "".join(f"; {_name(word)} says {_answer(word)}, not counted" for word in others)


def _name(word: Word) -> str:
    return f"{_NAMES[word.by]} ({word.because})" if word.because else _NAMES[word.by]


def _answer(word: Word) -> str:
    return {True: "yes", False: "no"}[word.answer] if isinstance(word.answer, bool) else word.answer
