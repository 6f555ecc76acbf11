"""Where a call's arguments point: files and environments."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from urllib.parse import unquote

from assentry.core.link_text import without_userinfo

CREDENTIAL_SEGMENTS = frozenset(
    """.ssh .aws .azure .gnupg .kube .netrc .npmrc .pypirc .pgpass .git-credentials .vault-token .htpasswd wallet.dat
    master.key shadow gshadow sudoers credentials id_rsa id_dsa id_ecdsa id_ed25519 gcloud logins.json environ
    key4.db .dockercfg .my.cnf .mylogin.cnf .s3cfg .boto .password-store _netrc""".split()
)
CREDENTIAL_PAIRS = frozenset(
    {(".git", "config"), (".docker", "config.json"), ("gh", "hosts.yml"), ("glab-cli", "config.yml")}
)
"""Files that hold credentials only in this directory."""
CREDENTIAL_ENDINGS = frozenset("pem p12 pfx jks keystore kdbx ppk ovpn key".split())
CREDENTIAL_WORDS = ("credential", "secret", "password", "service-account", "service_account")
DATA_ENDINGS = frozenset("json yaml yml toml ini txt csv env xml cfg conf".split())
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


_SETTINGS_FOLDERS = frozenset(
    """.claude .cursor .codex .gemini .windsurf .continue .cline .roo .kiro .git .husky .githooks .ssh
    .devcontainer""".split()
)
_SETTINGS_FILES = frozenset(
    """.claude.json .mcp.json claude.md claude.local.md agents.md gemini.md .cursorrules .windsurfrules .clinerules
    copilot-instructions.md .gitconfig .gitmodules .pre-commit-config.yaml .pre-commit-config.yml .profile .bash_profile
    .bash_login .bash_logout .bash_aliases .bashrc .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc .tcshrc
    .login .logout .inputrc .xinitrc .xprofile .xsession .xsessionrc .envrc .direnvrc .pam_environment .vimrc .exrc
    .tmux.conf crontab sitecustomize.py usercustomize.py profile.ps1 microsoft.powershell_profile.ps1
    assentry.db assentry.yaml assentry.yml""".split()
)
_SETTINGS_BELOW = (
    "/.config/fish/", "/.config/git/", "/.config/autostart/", "/.config/systemd/", "/.config/environment.d/",
    "/.local/share/systemd/", "/library/launchagents/", "/library/launchdaemons/", "/start menu/programs/startup/",
    "/.vscode/settings.json/", "/.vscode/tasks.json/", "/.vscode/launch.json/", "/.vscode/mcp.json/",
)  # fmt: skip
_SETTINGS = tuple(sorted(_SETTINGS_FOLDERS | _SETTINGS_FILES))
_SHORT_NAMES = {"git~1": ".git", "claude~1": ".claude", "gitmod~1": ".gitmodules", "husky~1": ".husky"}
"""What old programs of Windows call them."""
_GLOB = re.compile(r"[*?\[]")
SETS = "sets what programs do"
SYSTEM = "belongs to the system"
_ORDINARY = re.compile(
    r"/(?:root|usr/src|usr/local/src|Library/Caches)/.+|/(?:system|library)(?:/.*)?|/dev/(?:null|zero|full|u?random|tty|std(?:in|out|err)|fd/\d+|shm/.*)"
)
"""Places of the system where work is done: a home of root, sources, devices that keep nothing; and names like those."""
_CLIMBS_TO_SYSTEM = re.compile(r"(?:^|/)\.\./+(?:private/+)?(?:etc|usr|boot|proc|sbin)(?:/|$)")


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


def sets_what_programs_do(path: str) -> bool:
    """`path` leads to where it is set what programs do: settings of agents, editors and git, hooks, start-up files."""
    segments = [each.partition(":")[0].rstrip(". ") or each for each in path.casefold().replace("\\", "/").split("/")]
    segments = [_SHORT_NAMES.get(each, each) for each in segments]
    if segments[-1].endswith(".pub"):
        segments = [each for each in segments if each != ".ssh"]  # a public key
    if not _SETTINGS_FOLDERS.isdisjoint(segments) or segments[-1] in _SETTINGS_FILES:
        return True
    whole = f"/{'/'.join(segments)}/"
    if any(each in whole for each in _SETTINGS_BELOW):
        return True
    patterns = [each for each in segments if _GLOB.search(each) and each.strip("*?")]
    return any(fnmatchcase(name, each) for each in patterns for name in _SETTINGS if each[0] == name[0])


def is_protected(path: str, marks: Iterable[str]) -> bool:
    """Whoever changes `path` changes what programs or the system do."""
    if SETS in marks:
        return True
    if SYSTEM in marks and not (_ORDINARY.fullmatch(path) and ".." not in path and path.isascii()):
        return True
    return ".." in path and any(_CLIMBS_TO_SYSTEM.search(each.replace("\\", "/")) for each in _readings(path))


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
    if sets_what_programs_do(path):
        yield SETS
    if path[:1] in "/~$\\" or path[1:2] == ":":
        if _SYSTEM_PATH.match(path):
            yield SYSTEM
        elif _HOME.match(path):
            yield "in a home directory"
        elif _ABSOLUTE.match(path):
            yield "absolute"


_IN_ORDER = (
    "holds credentials", "leaves its directory", "may be taken for an option", "holds a character that ends it",
    SETS, SYSTEM, "in a home directory", "absolute",
)  # fmt: skip
ALARMING = frozenset(_IN_ORDER[:6])


def names_credentials(path: str) -> bool:
    """`path` leads to where credentials are kept."""
    segments = path.lower().replace("\\", "/").split("/")
    last = segments[-1]
    if last.endswith(".pub"):
        return False
    if not CREDENTIAL_SEGMENTS.isdisjoint(segments) or tuple(segments[-2:]) in CREDENTIAL_PAIRS:
        return True
    if "." not in last:
        return False
    stem, _, ending = last.rpartition(".")
    if last.startswith(".env") or stem.endswith(".env") or ending == "env":
        return ending not in _PUBLIC_ENV and (last == ".env" or last.startswith(".env.") or ending == "env")
    if ending in CREDENTIAL_ENDINGS:
        return True
    return ending in DATA_ENDINGS and any(word in stem for word in CREDENTIAL_WORDS)


def credentials_in_command(text: str) -> tuple[str, ...]:
    """The words of a command that lead to where credentials are kept."""
    words = _IN_COMMAND.finditer(without_userinfo(text))
    return tuple(found[0] for found in words if names_credentials(found[0]))


def protected_in_command(text: str, words: Iterable[str], programs: Collection[str]) -> tuple[str, ...]:
    """The words of a command that lead to where it is set what programs or the system do.

    `words` are the same as the grammar reads them; a word that is run is not written to.
    """
    found: dict[str, None] = {}
    for word in dict.fromkeys((*_WORDS_OF_COMMAND.findall(without_userinfo(text)), *words)):
        if len(word) <= LONGEST_PATH and word not in programs:
            path = _PUT_IN.sub("*", word)
            if is_protected(path, path_marks(path)) or _MAY_BE_SYSTEM.match(path):
                found[word] = None
    found |= {says: None for pattern, says in _SETTING_COMMANDS if pattern.search(text)}
    return tuple(found)


_PUT_IN = re.compile(r"\{[^{}]*\}|\$\w+|\$\{[^{}]*\}|\$\([^()]*\)|`[^`]*`")
"""What a shell puts something else in the place of."""
_MAY_BE_SYSTEM = re.compile(r"/(?=[^/]*[*?\[])(?:[etcusrbinoprdvyl*?\]\[]{1,12})(?:/|$)")
"""A pattern that may stand for one of the system's directories."""
_WORDS_OF_COMMAND = re.compile(r"[^\s'\"=@;|&<>()`,{}:]{3,4096}")
LONGEST_PATH = 4_096
_SETTING_COMMANDS = tuple(
    (re.compile(pattern, re.I), says)
    for pattern, says in (
        (r"\bgit\s[^\n;|&]{0,300}\bconfig\b(?![^\n;|&]{0,300}\s--?(?:get|list|l)\b)", "git's settings"),
        (r"\bcrontab\b(?!\s+-l\b)", "scheduled jobs"),
        (
            r"\bsystemctl\b(?!\s+(?:status|show|cat|list-\w+|is-\w+)\b)|\b(?:launchctl|schtasks|chkconfig)\b",
            "services of the system",
        ),
        (r"\bclaude\s+(?:mcp|config|plugin)\b", "the agent's settings"),
        (r"(?:^|[;&|\n(]\s*|\s-m\s+|/)assentry\s+[a-z-]", "the settings of Assentry"),
        (r"\b(?:chsh|visudo|vipw|usermod|useradd)\b", "users of the system"),
    )
)
"""Commands that change such places without naming them."""


def looks_like_path(text: str) -> bool:
    """`text` is written as a path, whatever its field is called."""
    text = text.strip()
    if "\n" in text or "://" in text:
        return text[:7].lower() == "file://"
    return (
        text.startswith(("/", "~", "./", "../", "..\\", ".\\", "\\\\", ".env", ".ssh"))
        or text[1:3] in {":\\", ":/"}
        or ((" " not in text) and ("/.." in text or "../" in text or "/." in text))
        or (" " not in text and sets_what_programs_do(_plain(text)))
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
