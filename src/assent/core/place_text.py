"""Where a call's arguments point: files, web addresses, people, environments."""

import re
from collections.abc import Sequence

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
    r"^(?:/(?:etc|usr|bin|sbin|boot|dev|proc|sys|lib\w*|root|System|Library|private/etc)(?:/|$)|/var/(?:lib|log|spool)(?:/|$)"
    r"|[A-Za-z]:[\\/](?:Windows|Program Files)|/$)",
    re.I,
)
_TRAVERSAL = re.compile(r"(?:^|[\\/])\.\.(?:[\\/]|$)|%2e%2e|\.\.%2f", re.I)
_ABSOLUTE = re.compile(r"^(?:/|[A-Za-z]:[\\/]|\\\\)")
_HOME = re.compile(r"^(?:~|\$HOME\b|/home/|/Users/)")
_HOST = r"[^\s/?#<>\"'\])}]{1,253}"
_LINK = re.compile(rf"\b(?:https?|ftp|wss?)://(?P<host>{_HOST})|\bwww\.(?P<www>{_HOST})", re.I)
_MAIL = re.compile(r"[^\s<>,;:\"'()\[\]@]{1,64}@(?P<domain>[^\s<>,;:\"'()\[\]@]{1,253})")
_BARE_ADDRESS = re.compile(
    r"^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\]|localhost|0x[0-9a-f]+|\d{8,10})(?::\d+)?$", re.I
)
_BETWEEN = frozenset(" ,;:<>\"'()[]\t\r\n")
_WORD_GAP = re.compile(r"[^a-z0-9]+")

_PRODUCTION = frozenset("production prod prd".split())
_STAGING = frozenset("staging stage stg uat preprod preproduction nonprod nonproduction canary".split())
_DEVELOPMENT = frozenset("development dev develop test testing local localhost sandbox qa demo".split())
_ENVIRONMENT_HINTS = ("prod", "prd", "sta", "stg", "uat", "dev", "test", "local", "sandbox", "qa", "demo", "canary")
_NOT = frozenset("non not pre no".split())
MOST_LINKS = 50


def path_marks(path: str) -> tuple[str, ...]:
    """What is remarkable about `path`, in words; the alarming marks are in `ALARMING`."""
    marks = []
    if names_credentials(path):
        marks.append("holds credentials")
    if (".." in path or "%2" in path) and _TRAVERSAL.search(path):
        marks.append("leaves its directory")
    if path[:1] in "/~$\\" or path[1:2] == ":":
        if _SYSTEM_PATH.match(path):
            marks.append("belongs to the system")
        elif _HOME.match(path):
            marks.append("in a home directory")
        elif _ABSOLUTE.match(path):
            marks.append("absolute")
    return tuple(marks)


ALARMING = frozenset({"holds credentials", "leaves its directory", "belongs to the system"})


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
    return tuple(found[0] for found in _IN_COMMAND.finditer(text) if names_credentials(found[0]))


def looks_like_path(text: str) -> bool:
    """`text` is written as a path, whatever its field is called."""
    if len(text) > 1024 or "\n" in text or "://" in text:
        return text.startswith("file://")
    return (
        text.startswith(("/", "~", "./", "../", "..\\", ".\\", "\\\\", ".env", ".ssh"))
        or text[1:3] in {":\\", ":/"}
        or ((" " not in text) and ("/.." in text or "../" in text or "/." in text))
    )


def hosts_in(text: str) -> tuple[str, ...]:
    """The hosts that links in `text` lead to, each once."""
    hosts: dict[str, None] = {}
    for found in _LINK.finditer(text):
        hosts[(found["host"] or found["www"]).lower().rstrip(".,;:!*_`")] = None
        if len(hosts) >= MOST_LINKS:
            break
    hosts.pop("", None)
    return tuple(hosts)


def is_odd_host(host: str) -> bool:
    """The host hides what it is: a bare number, letters from another script, or a name before an @."""
    return "@" in host or "xn--" in host or not host.isascii() or _BARE_ADDRESS.match(host) is not None


def recipients_in(text: str) -> tuple[str, ...]:
    """Who `text` addresses: every mail address in it, or the whole text where there is none."""
    if _BETWEEN.isdisjoint(text):
        whom = text.lower().rstrip(".") if "@" in text else text
        return (whom,) if 0 < len(whom) <= 300 else ()
    if '"' in text and "@" in text:
        return _quoted_recipients(text)
    if "@" in text:
        found = [match[0].lower().rstrip(".") for match in _MAIL.finditer(text)]
        if found:
            return tuple(found)
    bare = text.strip()
    return (bare,) if 0 < len(bare) <= 300 else ()


def _quoted_recipients(text: str) -> tuple[str, ...]:
    """A list with quoted parts, which may hold commas and an @ of their own: the last @ of each says where it goes."""
    found, start, quoted = [], 0, False
    for spot, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif letter in ",;\n" and not quoted:
            found.append(text[start:spot])
            start = spot + 1
    found.append(text[start:])
    named = (part.rpartition("<")[2].strip().rstrip(">. ").lower() for part in found)
    return tuple(whom for whom in named if whom)


def is_outside(recipient: str, domains: Sequence[str]) -> bool:
    """`recipient` is a mail address at none of our `domains` nor below one of them."""
    at = recipient.rfind("@")
    if at < 1:
        return False
    domain = recipient[at + 1 :].lower().rstrip(".")
    if domain in domains:
        return False
    return not domain.endswith(tuple("." + ours for ours in domains))


def environment_in(text: str) -> str:
    """The environment that `text` names: production, staging, development or, if none, the empty string."""
    text = text[:500].lower()
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
