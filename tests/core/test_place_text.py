"""Places, paths and lists: padding, spelling and nesting change nothing in what is found."""

from typing import Any

import pytest

from assentry.core.action import Fact
from assentry.core.facts import fact_view, facts_of
from assentry.core.place_text import environment_in, path_marks
from assentry.core.title import default_title

PADDING = [" " * 600, "\u200b" * 600, "a-" * 400, "x " * 3_000, "# comment\n" * 100, "/* " + "c" * 900 + " */ "]


def told(name: str, **args: Any) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts_of(name, args, domains=("ours.example",))}


@pytest.mark.parametrize("pad", PADDING)
def test_padding_hides_nothing(pad: str) -> None:
    assert told("deploy", env=pad + "prod")["environment"].value == "production"
    assert told("deploy", env=pad + "prod " + pad)["environment"].value == "production"
    assert "x@evil.example" in told("send", dest=pad + " x@evil.example", body="h")["recipients"].value
    assert told("open_page", url=pad + " https://evil.example/")["links"].value == ["evil.example"]
    assert "secret" in told("note", text=pad + " AKIA" + "IOSFODNN7EXAMPLE")
    assert told("write_file", path=pad + "/../../etc/passwd")["paths"].hurts
    assert told("manage", action=pad[:150] + "delete")["operation"].value.endswith("delete")


def test_a_query_behind_blanks_is_one() -> None:
    assert "DELETE" in str(told("find_rows", query=" " * 3_000 + "delete from users")["statements"].value).upper()


@pytest.mark.parametrize("text", ["ｐｒｏｄ", "pr\u200bod", "PROD"])
def test_an_environment_is_read_as_programs_read_it(text: str) -> None:
    assert environment_in(text) == "production"


@pytest.mark.parametrize(
    ("args", "left_out"),
    [
        ({"env": "x " * 30_000 + "prod" + " x" * 30_000}, "environment"),
        ({"path": "x/" * 30_000}, "paths"),
        ({"path": "x/" * 200}, "paths"),
        ({"ids": "a" * 30_000 + "," * 10 + "a" * 30_000}, "count"),
        ({"command": "x " * 60_000}, "sudo"),
        ({"action": "please " * 100 + "delete"}, "operation"),
    ],
)
def test_what_is_too_long_to_be_read_is_unreadable(args: dict[str, Any], left_out: str) -> None:
    assert left_out not in fact_view(facts_of("update_thing", args))


def test_a_place_that_was_not_read_in_full_may_be_production() -> None:
    from assentry.core.action import Action, Reach
    from tests.core.values import classified

    action = Action("update_thing", {"env": "x " * 30_000 + "prod" + " x" * 30_000}, agent="bot")
    assert classified(action).effect.reach is Reach.ORGANISATION


@pytest.mark.parametrize(
    ("ids", "count"),
    [
        ([None, 1, 2, 3], 4), ([{}, 1, 2], 3), (["", 1, 2], 3), ([[], 1, 2, 3], 3), ([1.0, 2, 3], 3),
        ([1.0, 2.0, 3.0], 3), ([[1], 2, 3, 4], 4), ([1, [2, 3]], 3), ([[[1, 2, 3], [4, 5]]], 5), ([[], [], []], 3),
        (["1,2", "3\n4"], 4), ([True, False], 2), ("1\n2\n3", 3), ({"a": 1, "b": 2}, 2),
    ],
)  # fmt: skip
def test_every_list_is_counted_whatever_it_begins_with(ids: Any, count: int) -> None:
    assert told("delete_users", ids=ids)["count"].value == count


def test_a_count_of_what_texts_hold_says_so() -> None:
    assert told("delete_users", ids=["1,2", "3\n4"])["count"].says == "4 users in 2 texts"
    assert told("delete_users", ids=[[1, 2], [3]])["count"].says == "3 users"


@pytest.mark.parametrize(
    ("files", "count"), [("a.txt b.txt c.txt", 3), ("a\nb\nc", 3), ("/a:/b", 0), ("my file.txt", 0), ("a,b", 2)]
)
def test_paths_in_one_text_are_counted(files: str, count: int) -> None:
    found = told("delete_files", files=files)
    assert (found["count"].value if "count" in found else 0) == count


@pytest.mark.parametrize(
    "path",
    [
        "./a/../../etc", "/tmp/../etc/passwd", "//etc/passwd", "/./etc/passwd", "a/%2e%2e/b", "a/%252e%252e/b",
        "%2fetc%2fpasswd", "..\\..\\windows", "a/.. /b", "a/.%2e/b", "file:///etc/passwd", "FILE:/etc/passwd",
        "file://localhost/etc/passwd", " /etc/passwd\n", "~root/x", "a.txt\n/etc/passwd", "a.txt,/etc/passwd",
        "a.txt:/etc/passwd", "a.txt /etc/passwd", "a.txt\0/etc/passwd", "a\0b", "-rf", "-rf /srv", "．．／x",
        "/ｅｔｃ/passwd", "/\u200betc/passwd", "\\\\?\\C:\\Windows\\x", "C:/Windows/x", "/etc./passwd", ".ssh./id_rsa",
        "x/" * 300 + "../" * 400 + "etc/passwd", "%25" * 9 + "2e%2e/x",
    ],
)  # fmt: skip
def test_no_spelling_of_a_path_makes_it_harmless(path: str) -> None:
    assert told("read_file", path=path)["paths"].hurts, path_marks(path)


@pytest.mark.parametrize(
    "path", ["docs/readme.md", "a..b", "v1.2/notes.txt", "my file.txt", "a, b.txt", "50%.txt", "é.md"]
)
def test_an_ordinary_path_stays_so(path: str) -> None:
    assert path_marks(path) == ()
    assert told("read_file", path=path)["paths"].value == [path]


def test_every_path_of_a_list_in_one_text_is_told() -> None:
    assert told("read_file", path="a.txt,/etc/passwd")["paths"].value == ["a.txt,/etc/passwd", "a.txt", "/etc/passwd"]


def test_whatever_is_cut_says_how_much_is_left_out() -> None:
    long = "x" * 400
    args = {"to": [f"{long[:250]}{n}" for n in range(9)], "path": "/srv/" + long, "url": f"https://{long}.example"}
    facts = facts_of("send_page", args)
    title = default_title("send_page", facts, args)
    for cut in [title, *(fact.says for fact in facts if long[:60] in fact.says)]:
        assert "… " in cut, cut
        assert " more character" in cut, cut
    assert "and 8 more" in title
