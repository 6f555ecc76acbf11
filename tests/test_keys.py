"""Keys on a real file system: made once, kept private, rotated without losing what they signed or sealed."""

import json
import multiprocessing
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assentry.core.export import with_successor
from assentry.core.signing import PublicKeys
from assentry.errors import KeyProblem
from assentry.keys import KeyRing, home
from assentry.ports import Signed

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    return KeyRing(tmp_path / "home")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nothing_is_made_before_it_is_needed(ring: KeyRing) -> None:
    assert ring.public_keys() == PublicKeys()
    assert ring.kept("db", "main") == ((), ())
    assert not ring.directory.exists()


def test_the_first_use_makes_a_key_that_only_the_owner_can_read(ring: KeyRing) -> None:
    old = os.umask(0)
    try:
        ring.sign(b"x")
        ring.seal("c", "s")
        ring.fingerprint("s")
    finally:
        os.umask(old)
    assert mode(ring.directory) == mode(ring.directory / "keys") == 0o700
    assert {mode(path) for path in (ring.directory / "keys").iterdir()} == {0o600}


def test_another_ring_on_the_same_directory_has_the_same_key(ring: KeyRing) -> None:
    again = KeyRing(ring.directory)
    name, signature = ring.signed(b"data")
    assert again.key_id == name
    assert again.public_keys().check(name, b"data", signature) is True
    assert again.public_keys().check(name, b"date", signature) is False
    assert again.public_keys().check("unknown", b"data", signature) is None
    assert again.sign(b"data").hex() == signature


def first_use(directory: Path) -> tuple[str, str, str]:
    ring = KeyRing(directory)
    return ring.key_id, ring.seal("c", "s").split(".")[1], ring.fingerprint("s")


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for attempt in range(5):
        directory = tmp_path / str(attempt)
        with context.Pool(8) as pool:
            assert len(set(pool.map(first_use, [directory] * 16, chunksize=1))) == 1
        names = sorted(path.name for path in (directory / "keys").iterdir())
        assert [name.partition(".")[2] for name in names if "." in name].count("key") == 1
        assert not [name for name in names if name.startswith(".")]


def test_the_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSENTRY_HOME", "/a")
    assert home() == Path("/a")
    monkeypatch.delenv("ASSENTRY_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    assert home() == Path("/x/assentry")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/h")
    assert home() == Path("/h/.local/share/assentry")


@pytest.mark.parametrize("suffix", ["key", "secret"])
def test_a_private_key_that_others_can_read_is_refused_with_the_remedy(ring: KeyRing, suffix: str) -> None:
    sealed = ring.seal("c", "s")
    ring.sign(b"")
    [path] = (ring.directory / "keys").glob(f"*.{suffix}")
    path.chmod(0o640)
    again = KeyRing(ring.directory)
    with pytest.raises(KeyProblem, match=r"chmod 600 '.*" + suffix) as caught:
        again.sign(b"") if suffix == "key" else again.unseal("c", sealed)
    assert "\n" not in str(caught.value)
    path.chmod(0o600)
    again.sign(b"")
    assert again.unseal("c", sealed) == "s"


def test_a_key_directory_that_others_can_change_is_refused(ring: KeyRing) -> None:
    (ring.directory / "keys").mkdir(parents=True)
    (ring.directory / "keys").chmod(0o777)
    with pytest.raises(KeyProblem, match="chmod 700"):
        ring.sign(b"")


def test_a_directory_that_cannot_be_used_is_a_key_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ring = KeyRing(tmp_path / "file" / "home")
    signed = Signed("main", 1, "t", "k", "s")
    for use in (lambda: ring.key_id, lambda: ring.seal("c", "s"), lambda: ring.keep("db", signed)):
        with pytest.raises(KeyProblem, match="ASSENTRY_HOME"):
            use()


def test_a_missing_or_damaged_or_exchanged_key_is_told(ring: KeyRing) -> None:
    path = ring.directory / "keys" / f"{ring.key_id}.key"
    pem = path.read_bytes()
    other = KeyRing(ring.directory.parent / "other")
    for content, says in (
        (None, "missing"),
        (b"nonsense", "damaged"),
        ((other.directory / "keys" / f"{other.key_id}.key").read_bytes(), "another key"),
    ):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
            path.chmod(0o600)
        with pytest.raises(KeyProblem, match=says):
            KeyRing(ring.directory).sign(b"")
    path.write_bytes(pem)
    KeyRing(ring.directory).sign(b"")


def test_a_pointer_cannot_lead_out_of_the_directory(ring: KeyRing) -> None:
    ring.sign(b"")
    (ring.directory / "keys" / "current").write_text("../../elsewhere")
    with pytest.raises(KeyProblem, match="letters"):
        KeyRing(ring.directory).sign(b"")
    with pytest.raises(KeyProblem, match="letters"):
        ring.kept("../db", "main")


def test_after_a_rotation_the_new_key_signs_and_the_old_one_still_verifies(ring: KeyRing) -> None:
    old, signature = ring.signed(b"before")
    elsewhere = KeyRing(ring.directory)
    assert elsewhere.key_id == old
    entry = ring.introduce("main", AT, "ana")
    assert ring.key_id == old
    ring.promote(entry.subject)
    assert ring.key_id == elsewhere.key_id == entry.subject != old
    assert elsewhere.signed(b"x")[0] == entry.subject
    assert ring.public_keys().check(old, b"before", signature) is True
    assert (entry.kind, entry.actor, entry.workspace) == ("key.rotated", "ana", "main")


def test_whoever_trusts_the_old_key_can_follow_to_the_new_one(ring: KeyRing) -> None:
    trusted = PublicKeys.of(ring.public_key())
    entry = ring.introduce("main", AT, "ana")
    assert entry.subject in with_successor(trusted, entry.text()).by_id
    stranger = KeyRing(ring.directory.parent / "stranger")
    forged = stranger.introduce("main", AT, "ana")
    assert with_successor(trusted, forged.text()) == trusted
    body = {**entry.body, "public": forged.body["public"]}
    assert with_successor(trusted, json.dumps({"kind": "key.rotated", "body": body})) == trusted
    for nonsense in ("", "[]", '{"kind":"key.rotated"}', '{"kind":"x","body":{}}'):
        assert with_successor(trusted, nonsense) == trusted


def test_a_public_key_can_be_shown_and_trusted_elsewhere(ring: KeyRing) -> None:
    name, signature = ring.signed(b"data")
    pem = ring.public_key()
    assert pem == ring.public_key(name)
    assert pem.startswith("-----BEGIN PUBLIC KEY-----")
    other = KeyRing(ring.directory.parent / "other")
    assert other.trust(pem) == name
    assert other.public_keys().check(name, b"data", signature) is True
    assert other.key_id != name
    with pytest.raises(KeyProblem, match="not a public key"):
        other.trust("hello")
    with pytest.raises(KeyProblem, match="missing"):
        other.promote(name)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.text(), st.text())
def test_what_is_sealed_opens_for_the_same_context_only(ring: KeyRing, context: str, text: str, other: str) -> None:
    context, text, other = (value.encode("utf-8", "ignore").decode() for value in (context, text, other))
    sealed = ring.seal(context, text)
    assert KeyRing(ring.directory).unseal(context, sealed) == text
    assert ring.seal(context, text) != sealed
    if other != context:
        with pytest.raises(KeyProblem, match="does not open"):
            ring.unseal(other, sealed)


def test_a_sealed_value_with_any_character_changed_does_not_open(ring: KeyRing) -> None:
    sealed = ring.seal("c", "hunter2")
    assert "hunter2" not in sealed
    for place in range(len(sealed)):
        for char in "A.z-":
            changed = sealed[:place] + char + sealed[place + 1 :]
            if changed != sealed:
                with pytest.raises(KeyProblem):
                    ring.unseal("c", changed)


def test_a_new_sealing_key_leaves_old_secrets_readable_and_fingerprints_alone(ring: KeyRing) -> None:
    sealed, fingerprint = ring.seal("c", "s"), ring.fingerprint("s")
    new = ring.rotate_sealing()
    again = KeyRing(ring.directory)
    assert again.seal("c", "s").split(".")[1] == new != sealed.split(".")[1]
    assert again.unseal("c", sealed) == "s"
    assert again.fingerprint("s") == fingerprint
    assert len(fingerprint) == 64
    assert KeyRing(ring.directory.parent / "other").fingerprint("s") != fingerprint


def numbered(size: int, workspace: str = "main") -> Signed:
    return Signed(workspace, size, f"checkpoint {size} — {'x' * size}", "key", "signature")


def test_checkpoints_are_kept_in_order_and_by_workspace(ring: KeyRing) -> None:
    for size in (1, 5000, 3):
        ring.keep("db", numbered(size))
    ring.keep("db", numbered(2, "other"))
    assert KeyRing(ring.directory).kept("db", "main") == ((numbered(1), numbered(5000), numbered(3)), ())
    assert ring.kept("another", "main") == ((), ())
    assert mode(ring.directory / "checkpoints" / "db.jsonl") == 0o600


@pytest.mark.parametrize("torn", ['{"workspace":', "x" * 10_000])
def test_a_line_torn_by_a_crash_is_dropped_and_a_changed_one_is_told(ring: KeyRing, torn: str) -> None:
    ring.keep("db", numbered(1))
    path = ring.directory / "checkpoints" / "db.jsonl"
    with path.open("a") as file:
        file.write(torn)
    assert ring.kept("db", "main") == ((numbered(1),), ())
    ring.keep("db", numbered(2))
    assert ring.kept("db", "main") == ((numbered(1), numbered(2)), ())
    path.write_text(path.read_text().replace('"size"', '"sise"', 1))
    found, [wrong] = ring.kept("db", "main")
    assert found == (numbered(2),)
    assert "line 1" in wrong


def test_checkpoints_kept_at_once_are_all_there(ring: KeyRing) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda size: KeyRing(ring.directory).keep("db", numbered(size)), range(50)))
    found, wrong = ring.kept("db", "main")
    assert sorted(signed.size for signed in found) == list(range(50))
    assert not wrong
