"""Texts that hold data, such as arguments as a model writes them: secrets in them are known by their names."""

import json
from collections import OrderedDict
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from assentry.core.canonical import canonical
from assentry.engine.sealing import redacted, sealed
from assentry.keys import KeyRing
from assentry.ports import Vault

ARGS = {"user": "ann", "password": "correct horse", "pin": 4711}


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return KeyRing(tmp_path)


def test_a_secret_in_a_text_that_is_json_stands_behind_the_mark_that_its_request_has(vault: Vault) -> None:
    text = json.dumps(ARGS, indent=2)
    clean = redacted(vault, [{"function": {"arguments": text}}])[0]["function"]["arguments"]
    assert json.loads(clean) == sealed(vault, "r1", ARGS, ())[0]
    assert ("correct horse" in clean, "4711" in clean, "ann" in clean) == (False, False, True)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_so_does_what_a_list_or_an_object_of_secrets_has_in_it(vault: Vault, depth: int) -> None:
    args = {"user": ["ann"], "password": ["correct horse", {"old": "battery [staple"}], "pin": [4711, True, {"at": 7}]}
    text = json.dumps(args)
    for _ in range(depth):
        text = json.dumps(text)
    clean = redacted(vault, {"said": text})["said"]
    for _ in range(depth + 1):
        clean = json.loads(clean)
    assert clean == sealed(vault, "r1", args, ())[0]


PLAIN = json.dumps(ARGS)


@pytest.mark.parametrize(
    "text",
    [
        f"[{PLAIN}]",
        '{"password": "correct horse", "password": ""}',
        f'{{"n": {"9" * 4400}, "rest": {PLAIN}}}',
        f'{{"a": {{"$int": "x"}}, "b": {PLAIN}}}',
        f"\ufeff{PLAIN}",
        f'{PLAIN}\n{{"a": 1}}',
        f"```json\n{PLAIN}\n```",
        json.dumps(PLAIN),
        json.dumps({"inner": json.dumps({"inner": PLAIN})}),
        f"ValueError: {PLAIN}",
        repr(ARGS),
        PLAIN[: PLAIN.index("horse") + 3],
        '{"a":' + "[" * 1100 + "]" * 1100 + f', "b": {PLAIN}}}',
        f'{{"x": NaN, "y": 1e999, "b": {PLAIN}}}',
    ],
)
def test_however_it_is_written(vault: Vault, text: str) -> None:
    clean = redacted(vault, {"said": text})["said"]
    assert ("correct" in clean, "4711" in clean) == (False, False)


def test_what_is_found_in_one_text_is_hidden_in_the_others(vault: Vault) -> None:
    clean = redacted(vault, {"log": "it said correct horse", "body": PLAIN})
    assert "correct horse" not in clean["log"]


def test_a_short_secret_is_hidden_only_where_it_stands(vault: Vault) -> None:
    said = {"id": "c1", "args": {"password": "1"}, "text": '{"password": "1", "n": 1}'}
    clean = redacted(vault, said)
    assert clean["id"] == "c1"
    assert clean["args"]["password"].startswith("⟨secret")
    assert json.loads(clean["text"]) == {"password": clean["args"]["password"], "n": 1}
    assert redacted(vault, clean) == clean


@pytest.mark.parametrize("secret", ["secret", "characters", "number"])
def test_a_secret_that_is_a_word_of_our_marks_leaves_them_whole(vault: Vault, secret: str) -> None:
    said = {"args": {"password": secret, "pin": 4711}, "text": json.dumps({"password": secret, "pin": 4711})}
    clean = redacted(vault, said)
    assert json.loads(clean["text"]) == clean["args"] == sealed(vault, "r1", said["args"], ())[0]
    again = redacted(vault, {**clean, "more": {"password": secret}})
    assert (again["args"], again["text"]) == (clean["args"], clean["text"])


@pytest.mark.parametrize(
    "text",
    [
        '{ "user" :  "ann", "n": 1.50 }',
        '{"user": "ann"',
        "{}",
        "{password: correct}",
        '{"a":' * 3000,
        '{"$decimal": "x"}',
        '{"$int": null}',
        '{"$int": 1e999}',
        '{"passwords": 3, "password": null, "password": ""}',
        "the password: see above",
    ],
)
def test_a_text_without_a_secret_stays_as_it_is(vault: Vault, text: str) -> None:
    said: dict[str, Any] = {"arguments": text}
    assert redacted(vault, said) == said


def test_around_a_secret_nothing_is_changed(vault: Vault) -> None:
    text = '{ "update": {"$set": {"a": 1.50}}, "n": 12345678901234567890, "password":"s3cret", "f": {"$int": "7"} }'
    clean = redacted(vault, text)
    mark = canonical(redacted(vault, {"password": "s3cret"})["password"])
    assert clean == text.replace('"s3cret"', mark)


@pytest.mark.parametrize(
    "text",
    [
        repr({"password": "o'hunter2xyz"}),
        repr({"password": b"hunter2xyz"}),
        repr({"password": ("hunter2xyz", "hunter2xyz")}),
        repr({"password": OrderedDict(now="hunter2xyz")}),
        "{'password': SecretStr('hunter2xyz')}",
        pformat({"password": "hunter2xyz " * 20}),
        PLAIN.replace("correct horse", "hunter2xyz").replace('"', "\\u0022"),
        PLAIN.replace("correct horse", "hunter2xyz").replace('"', "&quot;"),
        json.dumps({"password": "x" * 20_000 + "hunter2xyz"}),
        json.dumps({"password": ["x" * 1_000] * 200 + ["hunter2xyz"]}),
        """{'password': {"a}": 'x', 'b': 'hunter2xyz'}}""",
        '{"password"=>"hunter2xyz"}',
        '{"password":' + " " * 60 + '"hunter2xyz"}',
    ],
)
def test_in_whichever_language_it_is_written(vault: Vault, text: str) -> None:
    assert "hunter2xyz" not in redacted(vault, {"said": text})["said"]


def test_a_schema_of_secrets_hides_no_ordinary_word_elsewhere(vault: Vault) -> None:
    text = json.dumps({"properties": {"password": {"type": "string"}, "name": {"type": "string"}}})
    assert '"name": {"type": "string"}' in redacted(vault, text)


def test_very_many_secrets_are_hidden_without_looking_for_each_of_them_everywhere(vault: Vault) -> None:
    pins = {f"a{number:05}" for number in range(2_000)}
    text = ",".join(f'"pin":"{pin}"' for pin in sorted(pins)) + " " + "a0" * 20_000
    clean = redacted(vault, text)
    assert not any(f'"{pin}"' in clean for pin in pins)
    keys = [f"sk-live-{number:032x}" for number in range(150)]
    told = redacted(vault, {"log": "\n".join(keys), "note": "nothing here", "more": f"again {keys[7]}"})
    assert not any(key in str(told) for key in keys)
    assert told["note"] == "nothing here"
