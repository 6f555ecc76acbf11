"""Every damage of a sample is told; and the sample would notice if the verifier were blind in one eye."""

from collections.abc import Callable
from typing import Any

import pytest

from assentry.core import audit, export, signing
from assentry.keys import KeyRing
from tests import tamper


def test_every_damage_of_a_sample_is_told_and_named() -> None:
    found = tamper.run(400, seed=20260102)
    assert found["missed"] == 0, found["first_missed"]
    assert found["detected"] == found["cases"] == 400
    assert set(found["by_kind"]) >= {damage.__name__ for damage in tamper.LOG_DAMAGE}


_report = audit.Walk.report


def careless_report(self: audit.Walk, notes: Any = ()) -> audit.Report:
    self._settle()
    self._marks.clear()
    return _report(self, notes)


def blind_end(self: Any, _: Any) -> None:
    self.ended = True


PLANTED: dict[str, tuple[object, str, Callable[..., Any], set[str]]] = {
    "roots are not compared": (
        audit.Walk, "_matches", lambda *_: True, {"replaced", "swapped", "tail_rewritten", "inserted"},
    ),
    "checkpoints outside the database are not read": (
        KeyRing, "kept", lambda *_: ((), ()), {"cut_with_checkpoints", "checkpoint_gone"},
    ),
    "signatures are not checked": (
        signing.PublicKeys, "check", lambda *_: True, {"checkpoint_forged", "forged_receipt", "forged_export"},
    ),
    "entries missing at the end are not counted": (
        audit.Walk, "report", careless_report, {"cut"},
    ),
    "the end of an export is not checked": (export._Reader, "_end", blind_end, {"forged_export"}),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED)
def test_a_verifier_with_a_planted_bug_is_caught(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, blind, kinds = PLANTED[bug]
    monkeypatch.setattr(owner, name, blind)
    found = tamper.run(400, seed=5)
    missed = {kind for kind, counts in found["by_kind"].items() if counts["missed"]}
    assert kinds <= missed, missed
