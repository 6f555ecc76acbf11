"""Where secrets stand in a call's arguments.

Found here; what to do with a secret (seal, redact, erase) is decided elsewhere.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from assent.core.action import Json

Path = tuple[str | int, ...]

SECRET_KEYS = frozenset(
    """password passwd pwd passphrase secret clientsecret secretkey secretaccesskey apikey apitoken accesstoken
    authtoken refreshtoken bearertoken privatekey authorization credential credentials newpassword oldpassword
    currentpassword sessiontoken otp pin cvv cvc""".split()
)
_SHAPES = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:\r?\n[A-Za-z0-9+/=]{1,100}){1,400}"
    r"(?:\r?\n-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{30,255}\b|\bgithub_pat_\w{30,255}\b|\bglpat-[\w-]{20,64}\b"
    r"|\bxox[abeoprs]-[\w-]{13,255}|\bxapp-\d-[\w-]{12,255}"
    r"|\bsk-[A-Za-z0-9_-]{20,255}|\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,255}\b|\bwhsec_[A-Za-z0-9+/=]{20,255}"
    r"|\bAIza[\w-]{35}|\bya29\.[\w-]{20,512}|\bnpm_[A-Za-z0-9]{36}\b|\bpypi-[\w-]{50,255}|\bhf_[A-Za-z0-9]{30,64}\b"
    r"|\bSG\.[\w-]{16,32}\.[\w-]{16,64}|\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{5,2000}"
    r"|(?<=\b[Bb]earer )[A-Za-z0-9._~+/-]{16,2000}=*|(?<=\b[Bb]asic )[A-Za-z0-9+/]{16,512}={0,2}(?![A-Za-z0-9])"
    r"|\b[a-z][a-z0-9+.-]{1,30}://[\w.~%+-]{0,128}:[\w.~%+=!*,-]{1,256}@"
    r"|\b(?:[Pp]assword|PASSWORD|[Pp]wd|[Ss]ecret|SECRET|[Aa]pi[_-]?[Kk]ey|API_KEY|[Tt]oken|TOKEN|[A-Z_]{0,40}(?:KEY|TOKEN|SECRET|PASSWORD))"
    r"[ \t]{0,3}[=:][ \t]{0,3}['\"]?(?P<value>(?![\s'\"<${*/⟨])[\w.~+/=!@%^:-]{8,512})"
)
_MARK = re.compile(
    r"PRIVATE KEY|A[KS]IA|gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|[rs]k[-_]|whsec_|AIza"
    r"|ya29\.|npm_|pypi-|hf_|SG\.|eyJ|[Bb]earer|[Bb]asic|://|[Pp]assword|PASSWORD|[Pp]wd|[Ss]ecret|SECRET|[Aa]pi[_-]?[Kk]ey|[Tt]oken|TOKEN|KEY"
)
"""What every shape begins with or contains; looking for it first spares most texts the shapes."""
_LEAST_TOKEN = 16
_SHORTEST = 9
_LONG = 300
_LONG_WORD = 18
_ASSIGNED = ("://", "assword", "PASSWORD", "ecret", "SECRET", "oken", "TOKEN", "ey", "KEY", "wd", "earer", "asic")

_Trail: TypeAlias = "tuple[_Trail, str | int] | None"
"""A path as links to its parent, so that a deep nest costs no more than a wide one."""


def holds_secret(text: str) -> bool:
    """`text` contains something shaped like a key, a token or a password in an address."""
    if len(text) < _SHORTEST or (len(text) < _LONG and _is_plain_prose(text)):
        return False
    return _MARK.search(text) is not None and _SHAPES.search(text) is not None


def _is_plain_prose(text: str) -> bool:
    if max(map(len, text.split()), default=0) >= _LONG_WORD or "-----" in text:
        return False
    if ":" in text or "=" in text or "earer " in text or "asic " in text:
        for hint in _ASSIGNED:
            if hint in text:
                return False
    return True


def is_secret_name(name: str) -> bool:
    """A field of this name carries secrets, whatever they look like."""
    return name.replace("_", "").replace("-", "").lower() in SECRET_KEYS


def is_secret_key(key: str, value: str) -> bool:
    """A field called `key` is one that carries secrets, and `value` is not empty."""
    plain = key.replace("_", "").replace("-", "").lower()
    return bool(value) and (plain in SECRET_KEYS or (plain == "token" and len(value) >= _LEAST_TOKEN))


def secrets_in(args: Mapping[str, Json]) -> tuple[Path, ...]:
    """The path of every string in `args` that contains a secret or stands in a field made for one.

    Every string is looked at in full: what is missed here would reach logs and notifications.
    """
    found = [_path(trail) for trail, key, text in _strings(args) if is_secret_key(key, text) or holds_secret(text)]
    return tuple(sorted(found, key=lambda path: [str(part) for part in path]))


def shapes_in(text: str) -> list[str]:
    """Everything in `text` that has the shape of a secret, without the name that stands before it."""
    return [found["value"] or found[0] for found in _SHAPES.finditer(text)]


def secret_texts(args: Mapping[str, Json], *, named: bool = True) -> tuple[str, ...]:
    """The secrets themselves, longest first: the whole value of a field made for one, else only what has its shape.

    Names of fields are looked at too. A number in a field made for secrets is not text, and not among these.
    """
    found: set[str] = set()
    for _trail, key, text in _strings(args):
        if is_secret_key(key, text):
            if named:
                found.add(text)
        elif holds_secret(text):
            found.update(shapes_in(text))
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def _strings(args: Mapping[str, Json]) -> Iterator[tuple["_Trail", str, str]]:
    waiting: list[tuple[_Trail, str, Json]] = [(None, "", args)]
    while waiting:
        trail, key, value = waiting.pop()
        if isinstance(value, str):
            yield trail, key, value
        elif isinstance(value, Mapping):
            inside = is_secret_name(key)
            for name, inner in value.items():
                # Everything inside a field made for secrets is one.
                waiting.append(((trail, name), key if inside else str(name), inner))
                if len(name) >= _SHORTEST:
                    waiting.append(((trail, name), "", name))
        elif isinstance(value, list | tuple):
            waiting.extend(((trail, index), key, inner) for index, inner in enumerate(value))


def without_secrets(text: str) -> str:
    """`text`, as people and logs may see it, with everything shaped like a secret struck out."""
    if not holds_secret(text):
        return text
    for shape in sorted(shapes_in(text), key=len, reverse=True):
        text = text.replace(shape, f"⟨secret struck out, {len(shape)} characters⟩")
    return text


_VALUES = frozenset(("default", "examples", "const"))
"""Where a schema quotes values of its field."""


def schema_without_secrets(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """`schema` itself, or what of it may be kept: no value of a field made for secrets, nothing shaped like one."""
    if not any(is_secret_name(key) or holds_secret(text) for _trail, key, text in _strings(schema)):
        return schema
    kept: Mapping[str, Json] = _kept(schema, secret=False)
    return kept


def _kept(part: Json, *, secret: bool) -> Any:
    match part:
        case str():
            return without_secrets(part)
        case Mapping():
            names = [name for name in part if not (secret and name in _VALUES)]
            return {without_secrets(name): _kept(part[name], secret=secret or is_secret_name(name)) for name in names}
        case list() | tuple():
            return [_kept(each, secret=secret) for each in part]
        case _:
            return part


def _path(trail: "_Trail") -> Path:
    parts: list[str | int] = []
    while trail is not None:
        trail, part = trail
        parts.append(part)
    return tuple(reversed(parts))
