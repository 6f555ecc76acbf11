"""An action as conditions see it: each variable is built when a condition first asks for it."""

from collections.abc import Callable, Mapping

from assentry.core.action import Action, Assessment, Json, Reach
from assentry.core.facts import fact_view
from assentry.core.names import words


class Looking:
    """The five variables of a condition, for one action."""

    __slots__ = ("_action", "_assessment", "_built", "_run")

    def __init__(
        self, action: Action, assessment: Assessment, run: Callable[[], Mapping[str, Json]] | None = None
    ) -> None:
        self._action, self._assessment, self._run = action, assessment, run
        self._built: dict[str, Mapping[str, Json]] = {}

    def __getitem__(self, name: str) -> Mapping[str, Json]:
        if name == "args":
            return self._action.args
        built = self._built.get(name)
        if built is None:
            built = self._built[name] = self._build(name)
        return built

    def _build(self, name: str) -> Mapping[str, Json]:
        match name:
            case "facts":
                return fact_view(self._assessment.facts)
            case "effect":
                return effect_view(self._assessment)
            case "action":
                return action_view(self._action)
            case "run" if self._run is not None:
                return self._run()
            case _:
                return {}


def effect_view(assessment: Assessment) -> dict[str, Json]:
    """The four answers and what follows from them, as conditions see them."""
    effect = assessment.effect
    return {
        "reversible": effect.reversible,
        "reach": (effect.reach if assessment.vouched or not effect.is_read else Reach.SERVICE).value,
        "outside": effect.outside,
        "money": effect.money,
        "risk": assessment.risk.value,
        "read": assessment.only_reads,
        "known": assessment.is_known,
    }


def action_view(action: Action) -> dict[str, Json]:
    """What is known of the call itself. Confidence and cost are there only if the agent gave them."""
    view: dict[str, Json] = {
        "name": action.name,
        "agent": action.agent,
        "description": action.description,
        "tokens": words(action.name),
        "trusted": action.trusted,
    }
    if action.confidence is not None:
        view["confidence"] = action.confidence
    if action.cost is not None:
        view["cost"] = action.cost
    return view
