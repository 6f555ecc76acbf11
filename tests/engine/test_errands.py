"""The notebook that processes share: what one notes, the others see."""

from pathlib import Path

import pytest

from assentry.engine.errands import Errand, Notebook
from assentry.errors import SettingsError


def test_what_another_process_noted_is_seen(tmp_path: Path) -> None:
    ours, theirs = Notebook(tmp_path, "a"), Notebook(tmp_path, "a")
    assert ours.look().asked == {}
    for number in range(5):
        with theirs.opened() as noted:
            noted.asked[f"digest {number}"] = "key"
        assert f"digest {number}" in ours.look().asked
        with ours.opened() as noted:
            noted.pins[f"tool {number}"] = "pin"
        assert f"tool {number}" in ours.look().pins
        assert f"tool {number}" in theirs.look().pins
    for number in range(1000, 1300):  # as fast and as long as each other: no clock and no size tells them apart
        with ours.opened() as noted:
            noted.turn = str(number)
        assert ours.look().turn == str(number)
    assert Notebook(tmp_path, "b").look().asked == {}


def test_a_call_that_is_described_otherwise_is_another_one() -> None:
    known = Errand("delete", {"path": "/a"}, "files/delete", definition="one")
    assert known.digest == Errand("delete", {"path": "/a"}, "files/delete", definition="one").digest
    others = [
        Errand("delete", {"path": "/a"}, "files/delete", definition="two"),
        Errand("delete", {"path": "/b"}, "files/delete", definition="one"),
        Errand("delete", {"path": "/a"}, "other/delete", definition="one"),
    ]
    assert len({known.digest, *(other.digest for other in others)}) == 4


def test_what_a_killed_process_had_half_written_is_not_read_and_what_cannot_be_read_lets_nothing_run(
    tmp_path: Path,
) -> None:
    book = Notebook(tmp_path, "a")
    with book.opened() as noted:
        noted.pins["tool"] = "pin"
    (file,) = tmp_path.glob("*.json")
    file.with_suffix(".new").write_text('{"pins": {"to')
    assert Notebook(tmp_path, "a").look().pins == {"tool": "pin"}
    before = file.stat().st_ino
    with book.opened() as noted:
        noted.pins["other"] = "pin"
    assert file.stat().st_ino != before, "it is replaced as a whole"
    file.write_text(file.read_text()[:20])
    with pytest.raises(SettingsError, match="nothing runs"):
        Notebook(tmp_path, "a").look()
    with pytest.raises(SettingsError, match="nothing runs"), Notebook(tmp_path, "a").opened():
        pass
