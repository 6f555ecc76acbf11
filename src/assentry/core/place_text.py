"""Where a call's arguments point: files and environments."""

import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

from assentry.core.link_text import without_userinfo

_CREDENTIAL_SEGMENTS = frozenset(
    """.ssh .aws .azure .gnupg .kube .netrc .npmrc .pypirc .pgpass .git-credentials .vault-token .htpasswd wallet.dat
    master.key shadow gshadow sudoers credentials id_rsa id_dsa id_ecdsa id_ed25519 gcloud logins.json environ
    key4.db""".split()
)
_CREDENTIAL_ENDINGS = frozenset("pem p12 pfx jks keystore kdbx ppk ovpn key".split())
_CREDENTIAL_WORDS = ("credential", "secret", "password", "service-account", "service_account")
_DATA_ENDINGS = frozenset("json yaml yml toml ini txt csv env xml cfg conf".split())
_PUBLIC_ENV = frozenset("example sample template dist".split())
_IN_COMMAND = re.compile(r"[^\s'\"=@;|&<>()`]{3,300}")
_SYSTEM_PATH = re.compile(
    r"^(?:/(?:etc|usr|bin|sbin|boot|dev|proc|sys|lib\w*|root|System|Library|private/etc)(?:/|$)|/var/(?:lib|log|spool)(?:/|$)|~root(?:/|$)"
    r"|[A-Za-z]:[\\/](?:Windows|Program Files)|/$)",
    re.I,
)
_TRAVERSAL = re.compile(r"(?:^|[\\/])\.\.[. ]*(?:[\\/\0]|$)|%2e%2e|\.\.%2f|\.%2e|%2e\.", re.I)
_ABSOLUTE = re.compile(r"^(?:/|[A-Za-z]:[\\/]|\\\\)")
_HOME = re.compile(r"^(?:~|\$HOME\b|/home/|/Users/)")
_PARTED = re.compile(r"[\n\r,;|\0]|:(?=[/~.])|\s(?=[/~-]|\.\.)")
"""What may stand between the paths of a list."""
_SIMPLE = re.compile(r"~?/?\w[\w-]*+(?:\.\w[\w-]*+)*+(?:/\w[\w-]*+(?:\.\w[\w-]*+)*+)*+/?", re.ASCII)
"""A path that can be read in one way only."""
_NOT_SHORTEST = re.compile(r"/\.|//|\\|[. ](?:/|$)")
_FILE = re.compile(r"file:(?:[/\\]{2}[^/\\]*)?[/\\]*", re.I)
_ENCODED = 4
"""How often a path may be percent-encoded; nobody means more."""
_WORD_GAP = re.compile(r"[^a-z0-9]+")

_PRODUCTION = frozenset("production prod prd".split())
_STAGING = frozenset("staging stage stg uat preprod preproduction nonprod nonproduction canary".split())
_DEVELOPMENT = frozenset("development dev develop test testing local localhost sandbox qa demo".split())
_ENVIRONMENT_HINTS = ("prod", "prd", "sta", "stg", "uat", "dev", "test", "local", "sandbox", "qa", "demo", "canary")
_NOT = frozenset("non not pre no".split())


def path_marks(path: str) -> tuple[str, ...]:
    """What is remarkable about `path`, in words; the alarming marks are in `ALARMING`.

    Everything that the text may mean counts: written plainly or in percent signs, with either kind of slash, alone or
    as one of several in a list.
    """
    if _SIMPLE.fullmatch(path):
        return tuple(_marks(path))
    marks: dict[str, None] = {}
    for each in _readings(path):
        for part in dict.fromkeys((each, *_PARTED.split(each))) if _PARTED.search(each) else (each,):
            marks |= dict.fromkeys(_marks(part.strip()))
    return tuple(mark for mark in _IN_ORDER if mark in marks)


def paths_of(text: str) -> tuple[str, ...]:
    """The text, and each of the paths that it lists where a later one leads elsewhere."""
    if _SIMPLE.fullmatch(text) or not _PARTED.search(text):
        return (text,)
    parts = [part.strip() for part in _PARTED.split(text)]
    elsewhere = any(part.startswith(("/", "~", "-", "..", "\\")) or part[1:2] == ":" for part in parts[1:])
    return tuple(dict.fromkeys((text, *filter(None, parts)))) if elsewhere else (text,)


def _readings(path: str) -> list[str]:
    """The path as it stands, and as programs make it out before they open it."""
    readings = [path]
    plain = _plain(path).strip()
    for _ in range(_ENCODED):
        readings.append(plain)
        if "%" not in plain or (decoded := unquote(plain)) == plain:
            break
        plain = decoded.strip()
    else:
        readings.append("%2e%2e")  # encoded over and over: nobody means that
    readings += [_FILE.sub("/", each, count=1) for each in readings if each[:5].lower() == "file:"]
    readings += [each[4:] for each in readings if each.startswith(("\\\\?\\", "\\\\.\\"))]
    readings += [_resolved(each.replace("\\", "/")) for each in readings if _NOT_SHORTEST.search(each)]
    return list(dict.fromkeys(readings))


def _resolved(path: str) -> str:
    """The path without the parts that lead nowhere."""
    parts: list[str] = []
    for part in path.split("/"):
        bare = part.rstrip(". ") if part.strip(".") else part
        if bare == "..":
            del parts[-1:]
        elif bare not in ("", "."):
            parts.append(bare)
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def _marks(path: str) -> Iterator[str]:
    if names_credentials(path):
        yield "holds credentials"
    if ".." in path and _TRAVERSAL.search(path):
        yield "leaves its directory"
    if "%2" in path and _TRAVERSAL.search(path):
        yield "leaves its directory"
    if path.startswith("-"):
        yield "may be taken for an option"
    if "\0" in path:
        yield "holds a character that ends it"
    if path[:1] in "/~$\\" or path[1:2] == ":":
        if _SYSTEM_PATH.match(path):
            yield "belongs to the system"
        elif _HOME.match(path):
            yield "in a home directory"
        elif _ABSOLUTE.match(path):
            yield "absolute"


_IN_ORDER = (
    "holds credentials", "leaves its directory", "may be taken for an option", "holds a character that ends it",
    "belongs to the system", "in a home directory", "absolute",
)  # fmt: skip
ALARMING = frozenset(_IN_ORDER[:5])


def names_credentials(path: str) -> bool:
    """`path` leads to where credentials are kept."""
    segments = path.lower().replace("\\", "/").split("/")
    last = segments[-1]
    if last.endswith(".pub"):
        return False
    if not _CREDENTIAL_SEGMENTS.isdisjoint(segments):
        return True
    if "." not in last:
        return False
    stem, _, ending = last.rpartition(".")
    if last.startswith(".env") or stem.endswith(".env") or ending == "env":
        return ending not in _PUBLIC_ENV and (last == ".env" or last.startswith(".env.") or ending == "env")
    if ending in _CREDENTIAL_ENDINGS:
        return True
    return ending in _DATA_ENDINGS and any(word in stem for word in _CREDENTIAL_WORDS)


def credentials_in_command(text: str) -> tuple[str, ...]:
    """The words of a command that lead to where credentials are kept."""
    words = _IN_COMMAND.finditer(without_userinfo(text))
    return tuple(found[0] for found in words if names_credentials(found[0]))


def looks_like_path(text: str) -> bool:
    """`text` is written as a path, whatever its field is called."""
    text = text.strip()
    if "\n" in text or "://" in text:
        return text[:7].lower() == "file://"
    return (
        text.startswith(("/", "~", "./", "../", "..\\", ".\\", "\\\\", ".env", ".ssh"))
        or text[1:3] in {":\\", ":/"}
        or ((" " not in text) and ("/.." in text or "../" in text or "/." in text))
    )


def _plain(text: str) -> str:
    """`text` as programs read it that do not mind how its letters are written, and without those that nobody sees."""
    if text.isascii():
        return text
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


def environment_in(text: str) -> str:
    """The environment that `text` names: production, staging, development or, if none, the empty string."""
    text = _plain(text).lower()
    for hint in _ENVIRONMENT_HINTS:
        if hint in text:
            break
    else:
        return ""
    parts = [part for part in _WORD_GAP.split(text) if part]
    best = ""
    for spot, part in enumerate(parts):
        stem = part.rstrip("0123456789")
        if stem in _PRODUCTION:
            if spot and parts[spot - 1] in _NOT:
                best = best or "staging"
            else:
                return "production"
        elif stem in _STAGING:
            best = "staging"
        elif stem in _DEVELOPMENT:
            best = best or "development"
    return best
