"""However large a policy file is, reading and checking it takes steps in proportion to its size, and no more than so many.

Steps are counted and not timed: calls of functions, whoever makes them.
"""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from assentry.core import policy_file
from assentry.core.policy_file import load_policy, stored_policy, stored_warnings
from assentry.errors import PolicyError


def people(number: int, more: str = "roles: [a]") -> str:
    return "people:\n" + "".join(f"  p{each}: {{{more}}}\n" for each in range(number))


def rules(number: int, text: Callable[[int], str]) -> str:
    return "rules:\n" + "".join(f"- {{name: r{each}, gate: hard, {text(each)}}}\n" for each in range(number))


LONG_QUORUM = f"quorum: {{count: 60, roles: [{', '.join(f'q{each}' for each in range(60))}]}}"
SHAPES: dict[str, Callable[[int], str]] = {
    "people and rules": lambda n: people(n) + rules(n, lambda i: f"actions: a{i}, reviewers: ['role:a'], quorum: {i % 50 + 2}"),
    "roles": lambda n: people(n, "roles: [a, b]") + rules(n, lambda i: f"actions: a{i}, quorum: {{count: {i % 40 + 2}, roles: [a, b]}}"),
    "long quorums": lambda n: people(n, f"roles: [{', '.join(f'q{each}' for each in range(60))}]") + rules(n, lambda i: f"actions: a{i}, {LONG_QUORUM}"),
    "whoever is needed": lambda n: people(n) + rules(n - 1, lambda i: f"actions: a{i}, quorum: 2, reviewers: [p{i}, p{i + 1}]"),
    "owners": lambda n: people(9) + "agents:\n" + "".join(f"  b{i}: {{owner: p{i % 9}}}\n" for i in range(n)) + rules(n, lambda i: f"actions: a{i}, quorum: {7 + i % 2}"),
    "rungs": lambda n: people(n) + "limits: {time: never}\nladder:\n" + "".join(f"- {{after: {i + 1}s, tell: [p{i}]}}\n" for i in range(n)) + rules(n, lambda i: f"actions: a{i}, limit: {i + 1}d, quorum: 2, reviewers: [p0]"),
    "turns": lambda n: people(n) + "rotas:\n  n:\n    turns:\n" + "".join(f"    - {{person: p{i}, from: '2026-01-05T09:00:00+00:{i % 60:02}', to: '2027-01-05T09:00:00+00:00'}}\n" for i in range(n)) + rules(n, lambda i: f"actions: a{i}, reviewers: ['rota:n']"),
    "unknown reviewers": lambda n: people(n) + rules(n, lambda i: f"actions: a{i}, reviewers: [q{i}]"),
    "operators": lambda n: "second_person: true\n" + people(n, "roles: [operator]"),
    "globs": lambda n: rules(n, lambda i: f"actions: 'a{i}'"),
}  # fmt: skip


def steps(text: str) -> int:
    """Calls of functions of Assentry that loading it takes, whether or not it loads."""
    found = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal found
        found += event == "call" and "assentry" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        load_policy(text)
    except PolicyError:
        pass
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_of_four_times_the_size_takes_about_four_times_the_steps(shape: str) -> None:
    small, large = (steps(SHAPES[shape](number)) for number in (130, 520))
    assert large < 6 * small, (small, large)


SQUARES: dict[str, Callable[[int], str]] = {
    "globs above globs": lambda n: rules(n, lambda i: f"actions: 'a{i}*', agents: 'b{i}*'"),
    "agents of each rule": lambda n: people(9) + "agents:\n" + "".join(f"  b{i}: {{owner: p{i % 9}}}\n" for i in range(n)) + rules(n, lambda i: f"actions: 'a{i}*', agents: 'b*{i}', quorum: {8 + i % 2}"),
    "soft globs": lambda n: "actions:\n" + "".join(f"  'd{i}*': {{reversible: true}}\n" for i in range(n)) + "rules:\n" + "".join(f"- {{name: r{i}, gate: soft, actions: ['d{i}*']}}\n" for i in range(n)),
    "calls": lambda n: f"rules:\n- {{name: r, gate: watch, when: facts.count > 3 && action.cost > 1.0 && facts.amount > 2.0, actions: [{', '.join(f'a{i}' for i in range(n))}]}}\n",
}  # fmt: skip


@pytest.mark.parametrize("shape", SQUARES)
def test_what_grows_faster_ends_after_so_many_steps(shape: str) -> None:
    assert steps(SQUARES[shape](3_000)) < 3_000_000


def test_a_file_that_was_not_checked_to_its_end_says_so() -> None:
    found = load_policy(SQUARES["soft globs"](3_000)).warnings
    assert any("too large to check all of it" in each for each in found)


def test_complaints_and_warnings_end_after_the_first_hundred() -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy(SHAPES["unknown reviewers"](500))
    assert len(caught.value.complaints) == 101
    assert caught.value.complaints[-1].endswith("and more; correct these first")
    warned = load_policy(SHAPES["whoever is needed"](500)).warnings
    assert len(warned) == 101
    assert warned[-1].endswith("more warnings; correct the first ones")
    assert all(len(each) < 2_000 for each in (*warned, *caught.value.complaints))


def test_a_stored_policy_is_read_and_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    text = people(2) + rules(1, lambda _: "quorum: 3")
    with monkeypatch.context() as patched:
        patched.setattr(policy_file, "check_policy", None)
        assert stored_policy(text, 7).warnings == ()
        assert stored_policy(text, 7).version == 7
        assert stored_policy(text, 7) is stored_policy(text, 7), "once for all who hear of it"
    (told,) = stored_warnings(text, 7)
    assert "policy version 7:5: " in told
    assert "so only 2 can decide" in told


def test_a_quorum_of_too_many_roles_is_refused() -> None:
    with pytest.raises(PolicyError, match="names more than 100 roles"):
        load_policy(rules(1, lambda _: f"quorum: {{roles: [{', '.join(f'r{each}' for each in range(101))}]}}"))
