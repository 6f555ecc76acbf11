"""What counts for reads counts only where somebody vouches for the source: no stranger's name makes a read."""

import pytest

from assent.core.action import Action, Declaration, Reach
from assent.core.classify import classify
from assent.core.judge import judge
from assent.core.policy import Policy, Rule
from assent.core.run import Scope
from assent.core.scope import exceeded, uses
from assent.core.verdict import GateKind

FILES = [f"{number}.bak" for number in range(500)]
CHANGES_WAIT = Policy(rules=(Rule("changes wait", when="!effect.read", gate=GateKind.HARD),))


def called(name: str, *, trusted: bool, declared: Declaration | None = None) -> Action:
    return Action(name, {"files": FILES}, agent="bot", trusted=trusted, declared=declared or Declaration())


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name", ["get_rid_of_backups", "view_and_more", "list_files"])
def test_a_name_is_believed_where_somebody_vouches_for_it(name: str, trusted: bool) -> None:
    action = called(name, trusted=trusted)
    found = classify(action)
    assert found.effect.is_read
    assert found.only_reads is trusted
    assert (judge(Policy(), action, found).gate is GateKind.RUN) is trusted
    assert (judge(CHANGES_WAIT, action, found).gate is GateKind.HARD) is not trusted
    assert bool(exceeded(Scope(actions=("move_*",)), {}, action, found)) is not trusted
    assert (len(uses(action, found)) > 1) is not trusted


@pytest.mark.parametrize("description", ["List things.", "Shows the moon.", "Returns the balance."])
def test_a_strangers_description_says_nothing_in_its_favour(description: str) -> None:
    for trusted, gate in ((True, GateKind.RUN), (False, GateKind.HARD)):
        action = Action("frobnicate", {}, agent="bot", trusted=trusted, description=description)
        assert judge(Policy(), action, classify(action)).gate is gate


def test_what_a_stranger_calls_a_read_is_on_record_even_where_a_rule_lets_it_run() -> None:
    lets_run = Policy(rules=(Rule("all", gate=GateKind.RUN),))
    by_reach = Policy(rules=(Rule("reads", when='effect.reach == "nothing"', gate=GateKind.RUN),))
    for trusted in (True, False):
        action = called("list_files", trusted=trusted)
        found = classify(action)
        assert judge(lets_run, action, found).gate is (GateKind.RUN if trusted else GateKind.WATCH)
        assert (judge(by_reach, action, found).rule == "reads") is trusted


def test_the_operators_word_on_how_far_it_reaches_is_enough() -> None:
    action = called("list_files", trusted=False, declared=Declaration(reach=Reach.NOTHING))
    assert classify(action).only_reads
    other = called("list_files", trusted=False, declared=Declaration(outside=False))
    assert not classify(other).only_reads
