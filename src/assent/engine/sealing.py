"""Secrets leave the arguments before anything is stored or shown, and come back only where the action runs."""

import json
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any, cast

from assent.core.action import Json
from assent.core.secret_text import is_secret_name, secret_texts
from assent.ports import Vault

_NUMBER = "⟨secret number "

_WORTH_SEARCHING = 6
"""A secret this long is also looked for in the other arguments; a shorter one would be found in every word."""


def sealed(
    vault: Vault, context: str, args: Mapping[str, Json], declared: Collection[str]
) -> tuple[dict[str, Json], dict[str, str]]:
    """The arguments with every secret replaced by its fingerprint, and the secrets, encrypted, by placeholder."""
    found: dict[str, str] = {}
    clean: dict[str, Json] = dict(args)
    for name in declared:
        if isinstance(secret := clean.get(name), str) and secret:
            placeholder = _placeholder(vault, context, secret, found)
            clean[name] = placeholder
            if len(secret) >= _WORTH_SEARCHING:
                clean = _without(clean, secret, placeholder)
    for text in secret_texts(clean):
        clean = _without(clean, text, _placeholder(vault, context, text, found))

    def number(text: str) -> str:
        mark = _number_mark(vault, text)
        found[mark] = vault.seal(context, text)
        return mark

    return _without_numbers(clean, number, declared), found


def unsealed(vault: Vault, context: str, args: Json, found: Mapping[str, str]) -> Any:
    """The arguments as they were, wherever a placeholder still stands."""
    if not found:
        return args
    if isinstance(args, str):
        if args.startswith(_NUMBER) and args in found:
            return json.loads(vault.unseal(context, found[args]))
        for placeholder, secret in found.items():
            if placeholder in args:
                args = args.replace(placeholder, vault.unseal(context, secret))
        return args
    if isinstance(args, Mapping):
        return {
            unsealed(vault, context, key, found): unsealed(vault, context, value, found) for key, value in args.items()
        }
    if isinstance(args, list):
        return [unsealed(vault, context, value, found) for value in args]
    return args


def redacted(vault: Vault, value: Json, known: Iterable[str] = ()) -> Json:
    """`value` without secrets, for records that nobody needs to turn back."""
    for text in sorted({*known, *secret_texts({"value": value})}, key=len, reverse=True):
        if text:
            for spelling in {
                text,
                repr(text)[1:-1],
                json.dumps(text)[1:-1],
                json.dumps(text, ensure_ascii=False)[1:-1],
            }:
                value = _without(value, spelling, _mark(vault, text))
    return cast(Json, _without_numbers(value, lambda text: _number_mark(vault, text)))


def _mark(vault: Vault, text: str) -> str:
    """What stands for a secret: equal ones look equal, and how much is hidden can be seen."""
    return f"⟨secret {vault.fingerprint(text)[:12]}, {len(text)} characters⟩"


def _number_mark(vault: Vault, text: str) -> str:
    return f"{_NUMBER}{vault.fingerprint(text)[:12]}⟩"


def _placeholder(vault: Vault, context: str, text: str, found: dict[str, str]) -> str:
    placeholder = _mark(vault, text)
    if placeholder not in found:
        found[placeholder] = vault.seal(context, text)
    return placeholder


def _without_numbers(value: Any, mark: Callable[[str], str], declared: Container[str] = ()) -> Any:
    """A number in a field made for secrets (a PIN, a code) stands behind a mark of its own."""
    if isinstance(value, Mapping):
        return {
            key: mark(json.dumps(item))
            if type(item) in (int, float) and (key in declared or is_secret_name(key))
            else _without_numbers(item, mark)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_without_numbers(item, mark) for item in value]
    return value


def _without(value: Any, text: str, placeholder: str) -> Any:
    if isinstance(value, str):
        return value.replace(text, placeholder)
    if isinstance(value, Mapping):
        return {key.replace(text, placeholder): _without(item, text, placeholder) for key, item in value.items()}
    if isinstance(value, list):
        return [_without(item, text, placeholder) for item in value]
    return value
