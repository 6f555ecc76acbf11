"""Where secrets stand in a call's arguments.

Found here; what to do with a secret (seal, redact, erase) is decided elsewhere.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from assentry.core.action import Json

Path = tuple[str | int, ...]

SECRET_KEYS = frozenset(
    """password passwd pwd passphrase secret clientsecret secretkey secretaccesskey apikey apitoken accesstoken
    authtoken refreshtoken bearertoken privatekey authorization credential credentials newpassword oldpassword
    currentpassword sessiontoken otp pin cvv cvc""".split()
)
_SECRET_ENDS = tuple(
    """password passwd passphrase apikey apitoken accesstoken authtoken refreshtoken bearertoken sessiontoken secret
    secretkey secretaccesskey privatekey accesskey""".split()
)
"""What a longer name for a secret ends with: db_password, x-api-key."""
_CURSORS = tuple(f"{what}token" for what in "page next previous prev continuation cursor sync idempotency".split())
"""Tokens that say where to go on, and open nothing."""
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_LONGEST_NAME = 64
_SECRET, _TOKEN = 1, 2
"""What a field's name says of its values: secrets all of them, or only the long ones."""
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
    return _kind_of(name) == _SECRET


def is_token_name(name: str) -> bool:
    """A field of this name carries secrets where its values are long; where they are short they are just words."""
    return _kind_of(name) == _TOKEN


def is_secret_key(key: str, value: str) -> bool:
    """A field called `key` is one that carries secrets, and `value` is not empty."""
    if not value:
        return False
    kind = _kind_of(key)
    return kind == _SECRET or (kind == _TOKEN and len(value) >= _LEAST_TOKEN)


@lru_cache(maxsize=4096)
def _kind_of_short(name: str) -> int:
    plain = _BETWEEN_WORDS.sub("", name).lower()
    if plain in SECRET_KEYS or plain.endswith(_SECRET_ENDS):
        return _SECRET
    return _TOKEN if plain.endswith("token") and not plain.endswith(_CURSORS) else 0


def _kind_of(name: str) -> int:
    # Only the end counts, and nobody's long names are kept.
    return _kind_of_short(name if len(name) <= _LONGEST_NAME else name[-_LONGEST_NAME:])


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
    by_name, by_shape = secrets_by_kind(args)
    return tuple(sorted(by_name | by_shape if named else by_shape, key=lambda text: (-len(text), text)))


def secrets_by_kind(args: Mapping[str, Json]) -> tuple[set[str], set[str]]:
    """The secrets that the names of their fields tell, and those that their shapes do."""
    named: set[str] = set()
    shaped: set[str] = set()
    for _trail, key, text in _strings(args):
        if is_secret_key(key, text):
            named.add(text)
        elif holds_secret(text):
            shaped.update(shapes_in(text))
    return named, shaped


def holds_any_secret(args: Mapping[str, Json]) -> bool:
    """Somewhere in it stands a secret: a text, or a number in a field made for secrets."""
    return any(_is_secret(key, value) for _trail, key, value in _leaves(args))


def _is_secret(key: str, value: str | float) -> bool:
    return is_secret_key(key, value) or holds_secret(value) if isinstance(value, str) else is_secret_name(key)


def _strings(args: Mapping[str, Json]) -> Iterator[tuple["_Trail", str, str]]:
    return ((trail, key, value) for trail, key, value in _leaves(args) if isinstance(value, str))


def _leaves(args: Mapping[str, Json]) -> Iterator[tuple["_Trail", str, Any]]:
    """Every text and number with its field, and every name as a text; a name stands for all that is inside it."""
    waiting: list[tuple[_Trail, str, Json]] = [(None, "", args)]
    while waiting:
        trail, key, value = waiting.pop()
        if isinstance(value, Mapping):
            inside = is_secret_name(key)
            for name, inner in value.items():
                # Everything inside a field made for secrets is one.
                waiting.append(((trail, name), key if inside else str(name), inner))
                if len(name) >= _SHORTEST:
                    waiting.append(((trail, name), "", name))
        elif isinstance(value, list | tuple):
            waiting.extend(((trail, index), key, inner) for index, inner in enumerate(value))
        elif value is not None and not isinstance(value, bool):
            yield trail, key, value


def without_secrets(text: str) -> str:
    """`text`, as people and logs may see it, with everything shaped like a secret struck out."""
    if not holds_secret(text):
        return text
    for shape in sorted(shapes_in(text), key=len, reverse=True):
        text = text.replace(shape, f"⟨secret struck out, {len(shape)} characters⟩")
    return text


_VALUES = frozenset(("default", "example", "examples", "const", "enum"))
"""Where a schema quotes values of its field."""
_OF_SECRETS = frozenset(
    """type format required items prefixItems allOf anyOf oneOf $ref $dynamicRef $anchor $id minLength maxLength
    minItems maxItems minProperties maxProperties""".split()
)
"""All that is kept about a field for secrets; anything else may quote one."""
_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
"""What stands in these has names of somebody's choice."""


def schema_without_secrets(schema: Mapping[str, Json], declared: Collection[str] = ()) -> Mapping[str, Json]:
    """`schema` itself, or what of it may be kept: no value of a field made for secrets, nothing shaped like one.

    `declared` are arguments that are secrets whatever they are called.
    """
    if not declared and not _may_quote(schema):
        return schema
    cleaning = _Cleaning(frozenset(declared))
    while True:
        known = len(cleaning.referred)
        kept: Mapping[str, Json] = cleaning.schema(schema, "", secret=False, top=True)
        if len(cleaning.referred) == known:
            return schema if kept == schema else kept


def _may_quote(schema: Mapping[str, Json]) -> bool:
    """Something in it has the name or the shape of a secret."""
    waiting: list[Json] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if holds_secret(part):
                return True
        elif isinstance(part, Mapping):
            if any(_kind_of(name) or holds_secret(name) for name in part):
                return True
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
    return False


class _Cleaning:
    """Takes secrets out of one schema."""

    def __init__(self, declared: frozenset[str]) -> None:
        self._declared = declared
        self.referred: set[str] = set()
        """Definitions that fields for secrets refer to; they are found on the way, so it is gone over again."""

    def schema(self, part: Json, name: str, *, secret: bool, top: bool = False) -> Any:
        """`part`, the schema of the field `name`, without secrets."""
        if isinstance(part, str):
            return without_secrets(part)
        if isinstance(part, list | tuple):
            return [self.schema(each, name, secret=secret) for each in part]
        if not isinstance(part, Mapping):
            return part
        kept: dict[str, Any] = {}
        for word, said in part.items():
            if word in _NAMED and isinstance(said, Mapping):
                kept[word] = self._named(word, said, secret=secret, top=top)
            elif word in _VALUES:
                if not secret and not holds_any_secret({name: said}):
                    kept[word] = said
            elif not (secret or is_secret_name(word)) or _tells_nothing(word, said):
                if secret and word == "$ref" and isinstance(said, str):
                    self.referred.add(said.rpartition("/")[2])
                kept[without_secrets(word)] = self.schema(said, name, secret=secret or is_secret_name(word))
        return kept

    def _named(self, word: str, fields: Mapping[str, Json], *, secret: bool, top: bool) -> dict[str, Any]:
        own = self._declared if top and word == "properties" else self.referred if "def" in word else frozenset[str]()
        return {
            without_secrets(name): self.schema(each, name, secret=secret or name in own or is_secret_name(name))
            for name, each in fields.items()
        }


def _tells_nothing(word: str, said: Json) -> bool:
    """What a schema says with this word of a field for secrets gives none away, or is gone through itself."""
    if isinstance(said, Mapping | bool) or word in _OF_SECRETS:
        return True
    return word == "title" and isinstance(said, str) and is_secret_name(said)


def _path(trail: "_Trail") -> Path:
    parts: list[str | int] = []
    while trail is not None:
        trail, part = trail
        parts.append(part)
    return tuple(reversed(parts))
