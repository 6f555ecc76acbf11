"""One byte string for one JSON value (RFC 8785), and the digests over it.

What JSON numbers cannot carry faithfully travels as a tagged string: `{"$int": "…"}` beyond 2**53 and
`{"$decimal": "…"}`. A key that really starts with `$` is written with a second one, so no argument can
pretend to be a tag.
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from assentry.core.action import Json
from assentry.errors import InvalidArguments

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
_SAFE_INTEGER = 1 << 53
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_encode_simple = msgspec.json.Encoder(order="sorted").encode
_decode_simple = msgspec.json.Decoder().decode
_long_number = re.compile(r"[0-9]{16}").search


def canonical(value: Json) -> str:
    """The canonical JSON text of `value`; equal values give equal text, and nothing is lost on the way."""
    text = _written_at_once(value) or _written_with_care(value)
    if len(text) > MAX_BYTES // 4 and len(text.encode()) > MAX_BYTES:
        raise InvalidArguments(
            f"arguments are larger than {MAX_BYTES // 1024} KiB as JSON; pass a path or a reference "
            "to stored content instead of the content"
        )
    return text


def restore(text: str) -> Json:
    """The value that `canonical` wrote, with tagged numbers turned back into numbers."""
    if '"$' not in text and _long_number(text) is None:
        try:
            return _decode_simple(text)
        except (msgspec.MsgspecError, UnicodeEncodeError):
            pass  # What is wrong with it is said below.
    return _untag(json.loads(text, parse_int=_integer))


def digest(*parts: str) -> str:
    """SHA-256 over the parts, each preceded by its length so that no two lists of parts collide."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode()
        hasher.update(len(data).to_bytes(8, "big") + data)
    return hasher.hexdigest()


def _written_at_once(value: Any) -> str:
    """The text of a value that any encoder writes canonically, as most are; nothing if it takes more care."""
    if not _is_simple(value, 0):
        return ""
    try:
        return _encode_simple(value).decode()
    except UnicodeEncodeError:
        return ""


def _is_simple(value: Any, depth: int) -> bool:
    """Strings, small integers, truth values and nulls, under keys that need neither a tag nor UTF-16 to be sorted."""
    kind = type(value)
    if kind is dict:
        try:
            keys = "".join(value)
        except TypeError:
            return False
        if "$" in keys or not keys.isascii():
            return False
        value = value.values()
    elif kind is not list:
        return kind is str or value is None or kind is bool or (kind is int and _fits(value))
    if depth >= MAX_DEPTH:
        return False
    for item in value:
        kind = type(item)
        if kind is str or item is None or kind is bool or (kind is int and _fits(item)):
            continue
        if (kind is not dict and kind is not list) or not _is_simple(item, depth + 1):
            return False
    return True


def _fits(number: int) -> bool:
    return -_SAFE_INTEGER <= number <= _SAFE_INTEGER


def _written_with_care(value: Any) -> str:
    unusual: list[bool] = []
    plain = _plain(value, 0, unusual)
    # json's C encoder calls float.__repr__ and would skip ours, and sorts by code point where RFC 8785
    # sorts by UTF-16 unit; both matter only where the walk met such a number or key.
    return _encode_slowly(plain) if unusual else _encode(plain)


def _plain(value: Any, depth: int, unusual: list[bool]) -> Any:
    """`value` as JSON types only, tags applied; an error names what cannot be carried."""
    kind = type(value)
    if kind is str:
        if not value.isascii():
            _refuse_surrogates(value)
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -_SAFE_INTEGER <= value <= _SAFE_INTEGER else {"$int": str(value)}
    if kind is float:
        return _number(value, unusual)
    if depth >= MAX_DEPTH:
        raise InvalidArguments(f"arguments are nested deeper than {MAX_DEPTH} levels; flatten them")
    depth += 1
    if kind is list or kind is tuple:
        return [_plain(item, depth, unusual) for item in value]
    if kind is _Tag:
        return dict(value)
    if kind is dict or isinstance(value, Mapping):
        return {_key(key, unusual): _plain(item, depth, unusual) for key, item in value.items()}
    return _plain(_unusual_kind(value), depth, unusual)


def _unusual_kind(value: Any) -> Any:
    """A plainer spelling of `value` (enumerations, subclasses of the basic types, decimals)."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise InvalidArguments("a decimal argument is not a finite number; pass a real amount or leave it out")
        return _Tag({"$decimal": str(value)})
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, (list, tuple)):
        return list(value)
    raise InvalidArguments(
        f"an argument of type {type(value).__name__} cannot be written as JSON; pass plain data, or mark the "
        "parameter as injected if it is a client or a connection"
    )


class _Tag(dict[str, str]):
    """An object that we wrote ourselves, whose `$` is not to be doubled."""


def _key(key: Any, unusual: list[bool]) -> str:
    if not isinstance(key, str):
        raise InvalidArguments(f"an object key of type {type(key).__name__} is not a string; use string keys")
    if not key.isascii():
        _refuse_surrogates(key)
        unusual.append(True)
    return "$" + key if key[:1] == "$" else key


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArguments("text contains half a surrogate pair; pass valid Unicode") from None


class _Raw:
    """A number that is written exactly as given."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _number(value: float, unusual: list[bool]) -> "int | _Raw":
    """A float as ECMAScript would write it."""
    if not math.isfinite(value):
        raise InvalidArguments("a number is NaN or infinite; pass a finite number or leave it out")
    if value == 0:
        return 0
    if value.is_integer() and abs(value) <= _SAFE_INTEGER:
        return int(value)
    unusual.append(True)
    return _Raw(_ecmascript(value))


def _ecmascript(value: float) -> str:
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)  # noqa: S101  finite, so never one of the letters
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    if len(text) <= point <= 21:
        body = text + "0" * (point - len(text))
    elif 0 < point <= 21:
        body = text[:point] + "." + text[point:]
    elif -6 < point <= 0:
        body = "0." + "0" * -point + text
    else:
        mantissa = text if len(text) == 1 else text[0] + "." + text[1:]
        body = f"{mantissa}e{point - 1:+d}"
    return "-" + body if sign else body


def _encode_slowly(plain: Any) -> str:
    if isinstance(plain, _Raw):
        return plain.text
    if type(plain) is dict:
        keys = sorted(plain, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(_quoted(key) + ":" + _encode_slowly(plain[key]) for key in keys) + "}"
    if type(plain) is list:
        return "[" + ",".join(map(_encode_slowly, plain)) + "]"
    return json.dumps(plain, ensure_ascii=False)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _integer(written: str) -> int | float:
    """Integers beyond 2**53 are tagged, so a bare one of that size was a float."""
    if len(written) < 16:
        return int(written)
    number = int(written)
    return number if -_SAFE_INTEGER <= number <= _SAFE_INTEGER else float(written)


def _untag(value: Any) -> Any:
    if type(value) is list:
        return [_untag(item) for item in value]
    if type(value) is not dict:
        return value
    if len(value) == 1:
        (key, item), *_ = value.items()
        if key == "$int":
            return int(item)
        if key == "$decimal":
            return Decimal(item)
    return {key[1:] if key.startswith("$$") else key: _untag(item) for key, item in value.items()}
