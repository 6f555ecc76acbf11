"""What counts for reads counts only where somebody vouches for the source: no stranger's name makes a read."""

from typing import Any

import pytest

from assentry.core.action import Action, Declaration, Reach, Risk
from assentry.core.judge import judge
from assentry.core.policy import Policy, Rule
from assentry.core.run import Scope
from assentry.core.scope import exceeded, uses
from assentry.core.verdict import GateKind
from tests.core.values import classified

FILES = [f"{number}.bak" for number in range(500)]
CHANGES_WAIT = Policy(rules=(Rule("changes wait", when="!effect.read", gate=GateKind.HARD),))


def called(name: str, *, trusted: bool, declared: Declaration | None = None) -> Action:
    return Action(name, {"files": FILES}, agent="bot", trusted=trusted, declared=declared or Declaration())


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name", ["get_rid_of_backups", "view_and_more", "list_files"])
def test_a_name_is_believed_where_somebody_vouches_for_it(name: str, trusted: bool) -> None:
    action = called(name, trusted=trusted)
    found = classified(action)
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
        assert judge(Policy(), action, classified(action)).gate is gate


def test_what_a_stranger_calls_a_read_is_on_record_even_where_a_rule_lets_it_run() -> None:
    lets_run = Policy(rules=(Rule("all", gate=GateKind.RUN),))
    by_reach = Policy(rules=(Rule("reads", when='effect.reach == "nothing"', gate=GateKind.RUN),))
    for trusted in (True, False):
        action = called("list_files", trusted=trusted)
        found = classified(action)
        assert judge(lets_run, action, found).gate is (GateKind.RUN if trusted else GateKind.WATCH)
        assert (judge(by_reach, action, found).rule == "reads") is trusted


def test_the_operators_word_on_how_far_it_reaches_is_enough() -> None:
    action = called("list_files", trusted=False, declared=Declaration(reach=Reach.NOTHING))
    assert classified(action).only_reads
    other = called("list_files", trusted=False, declared=Declaration(outside=False))
    assert not classified(other).only_reads


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("get_rid_of_customers", {}),
        ("read_and_nullify_ledger", {}),
        ("query_and_zap", {}),
        ("search_and_annihilate", {"query": "*"}),
        ("search_then_zap_customers", {}),
        ("get_user_and_zap_it", {}),
        ("view_transfer_funds", {"amount_eur": 1000000}),
        ("view_transfer_funds", {}),
        ("check_out_funds", {}),
        ("list_entries", {"amount": 1000000}),
        ("list_entries", {"amount": {"odd": 1000000}}),
        ("list_entries", {"order": {"amount": 1000000}}),
    ],
)
def test_a_strangers_name_that_only_begins_like_a_read_waits(name: str, args: dict[str, Any]) -> None:
    action = Action(name, args, agent="bot", trusted=False)
    found = classified(action)
    assert found.risk >= Risk.DANGEROUS
    assert not found.effect.reversible
    assert judge(Policy(), action, found).gate >= GateKind.HARD


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("get_weather", {}),
        ("list_users_and_groups", {}),
        ("search_and_rank", {}),
        ("get_transfer_status", {}),
        ("list_refunds", {}),
        ("search_products", {"max_price": 50}),
        ("get_or_list_items", {}),
    ],
)
def test_a_strangers_plain_read_is_still_only_watched(name: str, args: dict[str, Any]) -> None:
    found = classified(Action(name, args, agent="bot", trusted=False))
    assert (found.effect.is_read, found.risk) == (True, Risk.RISKY)
