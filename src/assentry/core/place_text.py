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
_USERINFO = re.compile(r"://[^\s/?#<>\"']{0,2000}@")
_PORT = re.compile(r"(?:[^:]*|\[[^\]]*\]?)(?::\d{0,5})?$")
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
MOST_ADDRESSES = 500
_LOCAL = re.compile(r"[^\s<>,;:\"'()\[\]@|\\/=&?]{1,64}$")
_DOMAIN = re.compile(
    r"[^\s<>,;:\"'()\[\]@|\\/=&?!.]{1,63}(?:\.[^\s<>,;:\"'()\[\]@|\\/=&?!.]{1,63}){0,8}\.[^\W\d_][\w-]{1,62}"
)
_HEAD_LINE = re.compile(
    r"^[ \t]*(?:to|cc|bcc|resent-to)[ \t]*:([^\n]{1,2000}(?:\n[ \t][^\n]{0,2000}){0,50})", re.I | re.M
)


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
    words = _IN_COMMAND.finditer(without_userinfo(text))
    return tuple(found[0] for found in words if names_credentials(found[0]))


def looks_like_path(text: str) -> bool:
    """`text` is written as a path, whatever its field is called."""
    if len(text) > 1024 or "\n" in text or "://" in text:
        return text.startswith("file://")
    return (
        text.startswith(("/", "~", "./", "../", "..\\", ".\\", "\\\\", ".env", ".ssh"))
        or text[1:3] in {":\\", ":/"}
        or ((" " not in text) and ("/.." in text or "../" in text or "/." in text))
    )


def hosts_in(text: str) -> dict[str, bool]:
    """The hosts that links in `text` lead to, each once, and whether the link hides where it leads.

    What stands before the last @ of an address (a name, a password) is no host, and is never repeated.
    """
    hosts: dict[str, bool] = {}
    for found in _LINK.finditer(text):
        user, at, host = (found["host"] or found["www"]).lower().rstrip(".,;:!*_`").rpartition("@")
        if not _PORT.match(host):
            host = host.partition(":")[0]
        hosts[host] = hosts.get(host, False) or bool(at and "." in user) or is_odd_host(host)
        if len(hosts) >= MOST_LINKS:
            break
    hosts.pop("", None)
    return hosts


def without_userinfo(text: str) -> str:
    """`text` with the name and password taken out of every web address in it."""
    return _USERINFO.sub("://", text) if "@" in text and "://" in text else text


def is_odd_host(host: str) -> bool:
    """The host hides what it is: a bare number, or letters from another script."""
    return "xn--" in host or not host.isascii() or _BARE_ADDRESS.match(host) is not None


def recipients_in(text: str) -> tuple[str, ...]:
    """Who `text` addresses: every mail address in it, or the whole text where there is none."""
    text = without_userinfo(_with_at(text))
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


def _with_at(text: str) -> str:
    """`text` with every sign that mail programs take for an @ written as one."""
    return text if text.isascii() else text.replace("\uff20", "@").replace("\ufe6b", "@")


def addresses_in(text: str) -> tuple[str, ...]:
    """The mail addresses in `text`, wherever they stand; of very many only the first."""
    text = without_userinfo(_with_at(text))
    found: dict[str, None] = {}
    spot, signs = text.find("@"), 0
    while spot >= 0 and signs < MOST_ADDRESSES:
        signs += 1
        before = _LOCAL.search(text[max(0, spot - 64) : spot])
        after = _DOMAIN.match(text[spot + 1 : spot + 254])
        if before is not None and after is not None:
            found[f"{before[0]}@{after[0]}".lower()] = None
        spot = text.find("@", spot + 1)
    return tuple(found)


def addressed_in(text: str) -> tuple[str, ...]:
    """The addresses in the head lines of a mail that stands in `text`: To, Cc and Bcc."""
    if ":" not in text:
        return ()
    return tuple(whom for line in _HEAD_LINE.finditer(_with_at(text)) for whom in addresses_in(line[1]))


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
    """`recipient` is a mail or web address at none of our `domains` nor below one of them, or may lead elsewhere."""
    if "://" in recipient:
        hosts = hosts_in(recipient)
        return not hosts or any(not _is_ours(host.partition(":")[0], domains) for host in hosts)
    at = recipient.rfind("@")
    if at < 1:
        return "%40" in recipient
    if not _RELAYED.isdisjoint(recipient[:at]):
        return True
    return not _is_ours(recipient[at + 1 :].lower(), domains)


_RELAYED = frozenset("@%!")
"""Before the @ of an address these may say where it goes on to from there."""


def _is_ours(host: str, domains: Sequence[str]) -> bool:
    host = host.rstrip(".")
    return host in domains or host.endswith(tuple("." + ours for ours in domains))


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
