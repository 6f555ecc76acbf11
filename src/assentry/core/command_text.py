"""What a shell command or an SQL text would do, read from the text alone.

Reading here is deliberately suspicious: a command counts as only reading when every part of it is known to, and
anything the reader does not understand (substitution, unbalanced quotes, an unknown program) counts against it.
"""

import re
from dataclasses import dataclass

LONGEST_COMMAND = 8_000
"""What is longer is read at its head and tail, and never counts as only reading."""


@dataclass(frozen=True, slots=True)
class Shell:
    """A shell command taken apart."""

    programs: tuple[str, ...] = ()
    destroys: tuple[str, ...] = ()
    """What in the command deletes or overwrites, in words."""
    everything: bool = False
    """The target has no bound: a wildcard, a root, a recursive delete."""
    sudo: bool = False
    to_shell: bool = False
    """Text from elsewhere becomes a program: a pipe into a shell, `eval`, a substituted command."""
    outside: bool = False
    only_reads: bool = False


@dataclass(frozen=True, slots=True)
class Sql:
    """An SQL text taken apart."""

    statements: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    destroys: tuple[str, ...] = ()
    everything: bool = False
    only_reads: bool = False


_WRAPPERS = frozenset(
    "sudo doas env nohup time nice ionice stdbuf timeout xargs command exec builtin watch setsid".split()
)
_KEYWORDS = frozenset("if then else elif do while until for in case ! function".split())
_READERS = frozenset(
    """ls cat head tail grep egrep fgrep rg wc pwd whoami id date uname echo printf stat file du df ps
    which type tree diff cmp sort uniq cut tr nl basename dirname realpath readlink printenv uptime free groups
    locale cal sleep true false test find git jq md5sum sha256sum cd""".split()
)
_READING_OPTIONS = {
    program: re.compile(pattern)
    for program, pattern in {
        "find": r"-(?:i?name|i?path|type|size|[acm]time|[acm]min|newer|maxdepth|mindepth|print0?|empty|user|group|perm"
        r"|not|o|or|a|and|prune|ls|regex|iregex|xdev|L|H|P|\d+[kMG]?)",
        "sort": r"-[rnuhVfbcgisMz]+|-k[\d.,rn]*|-t.?|--(?:reverse|numeric-sort|unique)",
        "tree": r"-[adfhpsugDCFL\d]+",
        "date": r"-u|--utc|-R|-I[a-z]*|--rfc-email|--iso-8601(?:=[a-z]+)?",
        "rg": r"-[inlcvwFHNSshoxU\d]+|-[ABCgtTm]\d*"
        r"|--(?:hidden|no-ignore|count|files|files-with-matches|no-heading|json|stats)",
        "file": r"-[bikL]+|--(?:brief|mime|mime-type)",
        "git": r"-[psbwnz\d]+|-U\d+|--(?:oneline|stat|shortstat|numstat|name-only|name-status|graph|all|decorate"
        r"|short|porcelain|branch|cached|staged|no-color|follow|no-merges|merges|reverse|tags|abbrev-ref|show-toplevel|no-patch|date=\w+"
        r"|(?:since|until|after|before|author|format|pretty|max-count)=[\w .:%,/@+-]*)",
    }.items()
}
"""For programs that can also write: the options with which they do not. Everything else counts against them."""
_READING_GIT = frozenset("status log diff show blame shortlog describe rev-parse ls-files ls-tree".split())
_DESTROYERS = {
    "rm": "rm deletes files", "rmdir": "rmdir deletes directories", "unlink": "unlink deletes a file",
    "shred": "shred destroys file contents", "mkfs": "mkfs erases a disk", "dd": "dd writes raw data",
    "truncate": "truncate empties files", "wipefs": "wipefs erases a disk", "fdisk": "fdisk repartitions a disk",
    "parted": "parted repartitions a disk", "userdel": "userdel deletes a user", "dropdb": "dropdb drops a database",
    "kill": "kill ends processes", "pkill": "pkill ends processes", "killall": "killall ends processes",
    "shutdown": "shutdown stops the machine", "reboot": "reboot restarts the machine", "halt": "halt stops the machine",
    "poweroff": "poweroff stops the machine", "del": "del deletes files", "format": "format erases a disk",
    "rd": "rd deletes directories", "remove-item": "Remove-Item deletes", "srm": "srm destroys file contents",
}  # fmt: skip
_NETWORK = frozenset(
    "curl wget nc ncat netcat ssh scp sftp rsync ftp telnet mail sendmail mutt aws gcloud az gh".split()
)
_PHRASES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.I), says)
    for pattern, says in (
        (
            r"\bgit\s+push\b[^\n;|&]{0,300}(?:\s--force\b|\s-[a-z]*f\b|\s\+\w|--mirror|--delete)",
            "git push --force rewrites the remote",
        ),
        (r"\bgit\s+reset\b[^\n;|&]{0,300}--hard", "git reset --hard discards changes"),
        (r"\bgit\s+clean\b[^\n;|&]{0,300}-[a-z]*f", "git clean deletes untracked files"),
        (r"\bgit\s+(?:checkout|restore)\s+(?:--\s+)?\.", "git discards changes"),
        (r"\bgit\s+branch\b[^\n;|&]{0,300}\s-(?:D|d)\b", "git deletes a branch"),
        (r"\bfind\b[^\n;|]{0,300}(?:-delete\b|-exec(?:dir)?\s+(?:rm|shred|unlink)\b)", "find deletes what it finds"),
        (r"\bkubectl\b[^\n;|&]{0,300}\s(?:delete|drain|replace)\b", "kubectl deletes resources"),
        (r"\bhelm\b[^\n;|&]{0,300}\s(?:uninstall|delete)\b", "helm removes a release"),
        (r"\bterraform\b[^\n;|&]{0,300}\s(?:destroy|apply)\b", "terraform replaces or destroys resources"),
        (r"\bdocker\b[^\n;|&]{0,300}\s(?:rm|rmi|prune|kill|down)\b", "docker removes containers, images or volumes"),
        (r"\baws\b[^\n;|&]{0,300}\s(?:rm|rb|delete-[\w-]+|terminate-[\w-]+)\b", "aws deletes resources"),
        (r"\b(?:gcloud|az|gsutil|gh)\b[^\n;|&]{0,300}\s(?:delete|rm|remove)\b", "the cloud tool deletes resources"),
        (r"\b(?:drop|truncate)\s+(?:table|database|schema)\b|\bdelete\s+from\b", "SQL deletes data"),
        (r">\s*/dev/(?:sd|nvme|hd|disk)", "overwrites a disk"),
        (r"\bcrontab\s+-r\b", "crontab -r deletes every scheduled job"),
        (r"\b(?:chmod|chown)\b[^\n;|&]{0,300}\s-[a-z]*R", "changes permissions recursively"),
        (r"\brsync\b[^\n;|&]{0,300}--delete", "rsync deletes what is not in the source"),
        (r"\brm\s+(?:-[a-z]*[rf]|--recursive)", "rm -r deletes recursively"),
        (r":\s*\(\s*\)\s*\{", "a fork bomb"),
        (
            r"\b(?:os\.(?:remove|unlink|rmdir|removedirs)|shutil\.rmtree|fs\.(?:rm|unlink)(?:Sync)?)\b",
            "the code deletes files",
        ),
    )
)
_EVERYTHING = re.compile(
    r"\brm\b(?=[^\n;|&]{0,300}\s-(?:[a-z]*r|-recursive))|\b(?:rm|del|unlink|shred|chmod|chown)\b[^\n;|&]{0,300}(?:\*|\s/(?:\s|$)|\s~/?(?:\s|$))"
    r"|\bfind\b[^\n;|]{0,300}-delete\b|--all\b|\bprune\b|\bremove-item\b[^\n;|]{0,300}-recurse",
    re.I,
)
_TO_SHELL = re.compile(
    r"\|\s*(?:sudo\s+)?(?:\S{0,100}/)?(?:ba|z|da|k|c)?sh\b|\|\s*(?:sudo\s+)?(?:python3?|perl|ruby|node|pwsh)\b|\beval\b|base64\s+(?:-d|--decode)"
)
_SUBSTITUTION = re.compile(r"`|\$\(|<\(|>\(|\$\{")
_REDIRECT = re.compile(r"(?<![0-9&])>(?!&)|[0-9]>(?!&|\s*/dev/null)|\btee\b")
_SEPARATOR = re.compile(r"\|\||&&|[;|&\n]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_ASSIGNMENT = re.compile(r"^\w+=")
_UNAMBIGUOUS = re.compile(
    r"(?:[A-Za-z0-9 _./=,:@%+|-]|(?<= )'(?!-)[A-Za-z0-9 _./=,:@%+*?-]*'(?= |$)|(?<= )2>/dev/null(?= |$))+"
)
"""Text that every shell reads alike: no escapes, comments, braces, variables; quotes only around a whole word."""
_INNER_COMMAND = re.compile(
    r"\$\(([^()]{1,2000})\)|`([^`]{1,2000})`|\s-c\s+'([^']{1,2000})'|\s-c\s+\"([^\"]{1,2000})\""
)


def read_shell(text: str) -> Shell:
    """What `text` would do if a shell ran it."""
    whole = len(text) <= LONGEST_COMMAND
    text = _ends(text)
    bare = _QUOTED.sub(_keep_substitutions, text)
    parts = [part.split() for part in _SEPARATOR.split(bare) if part.strip()]
    programs: dict[str, None] = {}
    for part in parts:
        for program in _programs(part):
            programs[program] = None
    for inner in _INNER_COMMAND.findall(text):
        for part in _SEPARATOR.split("".join(inner)):
            programs |= dict.fromkeys(_programs(part.split()))
    destroys = {_DESTROYERS[program]: None for program in programs if program in _DESTROYERS}
    destroys |= {says: None for pattern, says in _PHRASES if pattern.search(text)}
    to_shell = bool(_TO_SHELL.search(text)) or ("|" in bare and "xargs" in programs and bool(destroys))
    harmless = (
        whole
        and _UNAMBIGUOUS.fullmatch(text) is not None
        and bool(parts)
        and not destroys
        and not to_shell
        and "sudo" not in programs
        and not _SUBSTITUTION.search(text)
        and not _REDIRECT.search(bare)
        and "'" not in bare.replace("''", "")
        and all(_only_reads(part) for part in parts)
    )
    return Shell(
        programs=tuple(programs),
        destroys=tuple(destroys),
        everything=bool(destroys) and bool(_EVERYTHING.search(text)),
        sudo="sudo" in programs or "doas" in programs,
        to_shell=to_shell,
        outside=not _NETWORK.isdisjoint(programs) or "/dev/tcp/" in text,
        only_reads=harmless,
    )


def _ends(text: str) -> str:
    return text if len(text) <= LONGEST_COMMAND else text[:6_000] + "\n" + text[-2_000:]


def _keep_substitutions(found: re.Match[str]) -> str:
    inside = found[0]
    return inside if inside[0] == '"' and _SUBSTITUTION.search(inside) else "''"


def _program(word: str) -> str:
    return word.rsplit("/", 1)[-1].strip("\"'(){}$`").lower().removesuffix(".exe")


def _programs(part: list[str]) -> list[str]:
    found: list[str] = []
    for word in part:
        if _ASSIGNMENT.match(word) or (found and word.startswith("-")):
            continue
        program = _program(word)
        if not program or program in _KEYWORDS or (found and found[-1] == "timeout" and program[0].isdigit()):
            continue
        found.append(program)
        if program not in _WRAPPERS:
            break
    return found


def _only_reads(part: list[str]) -> bool:
    program = _program(part[0])
    if "/" in part[0] or program not in _READERS:
        return False
    if program == "git" and (len(part) < 2 or part[1] not in _READING_GIT):
        return False
    if program == "uniq" and len(part) > 2:
        return False
    if program == "date" and any(word[0] not in "-+" for word in part[1:]):
        return False  # it sets the clock
    known = _READING_OPTIONS.get(program)
    return known is None or all(known.fullmatch(word) for word in part[1:] if word[0] == "-" and len(word) > 1)


_SQL_KINDS = frozenset(
    """select insert update delete merge replace upsert drop truncate alter create grant revoke with explain show
    describe desc values table pragma attach detach vacuum analyze call exec execute do copy load set use begin
    commit rollback savepoint lock rename comment refresh reindex cluster start end declare kill shutdown""".split()
)
_SQL_READS = frozenset("select show describe desc explain values table with".split())
_SQL_WRITES = (_SQL_KINDS - _SQL_READS - {"end", "start"}) | frozenset(
    """into outfile dumpfile backup restore reconfigure waitfor openrowset openquery opendatasource deny dbcc bulk
    raiserror throw goto while use disable enable checkpoint install uninstall import export handler flush reset
    purge listen notify prepare deallocate discard fetch move security""".split()
)
"""Words that stand in no statement that only reads. Some databases need no semicolon between statements."""
_SQL_WORD = re.compile(r"[A-Za-z_]\w*")
_SQL_DESTROYS = frozenset("delete drop truncate shutdown kill".split())
_SQL_ASIDE = re.compile(
    r"'(?:[^']|'')*(?:'|$)|\"[^\"]*(?:\"|$)|`[^`]*(?:`|$)|--(?:(?=\s)[^\n]*|$)|/\*(?!!)(?:.*?\*/|.*)", re.S
)
"""Strings, quoted names and comments in one pass, so that none of them can hide inside another."""
_SQL_RUN_COMMENT = re.compile(r"/\*!\d*|\*/")
_SQL_INNER = re.compile(r"\b(insert\s+into|update|delete\s+from|merge\s+into|drop\s+\w+|truncate|alter\s+\w+)\b", re.I)
_SQL_SIDE = re.compile(
    r"\binto\s+(?!\s*\()|\boutfile\b|\bdumpfile\b|\bfor\s+update\b|\b(?:pg_(?:read|write|ls|terminate|cancel|sleep|reload|rotate)\w*"
    r"|lo_\w+|dblink\w*|xp_\w+|sp_\w+|nextval|setval|set_config|load_file|load_extension|writefile|sys_exec|sys_eval)\s*\(",
    re.I,
)
_SQL_TABLE = re.compile(
    r"\b(?:from|join|into|update|table(?:\s+if\s+(?:not\s+)?exists)?|truncate|database|schema)\s+([\w.\"`\[\]-]+)", re.I
)
_SQL_CALL = re.compile(r"([A-Za-z_][\w.]*)\s*\(")
_SQL_HARMLESS = frozenset(
    """count sum min max avg lower upper coalesce length round abs date now trim ltrim rtrim substr substring concat
    cast extract floor ceil nullif ifnull iif greatest least year month day strftime date_trunc row_number rank
    dense_rank lag lead over partition in values exists and or not as from where on using join select with by
    having all any some case when then else limit offset union intersect except distinct between like is""".split()
)
"""Functions and words that may stand before a bracket in a statement that counts as only reading."""
_SQL_WHERE = re.compile(r"\bwhere\b(.*)", re.I | re.S)
_SQL_ALWAYS = re.compile(
    r"^\s*\(?\s*(?:(\d+)\s*=\s*\1|true|1|not\s+false)\s*\)?\s*(?:;|$|limit|returning|or\b)|\bor\s+(?:(\d+)\s*=\s*\2|true)\b",
    re.I,
)
LOOKS_LIKE_SQL = re.compile(
    r"^[\s(;]*(?:(?:--[^\n]*\n|/\*.*?\*/)\s*)*(?:select\b.+\bfrom\b|select\s+[\w*(]+|insert\s+into\b|update\s+\S+\s+set\b|delete\s+from\b"
    r"|(?:drop|alter|create)\s+(?:or\s+replace\s+)?(?:temp\w*\s+|unique\s+|materialized\s+)?(?:table|database|schema|index|view|user|role|function|trigger)\b"
    r"|truncate\s+\w+|with\s+\w+\s+as\s*\(|merge\s+into\b|grant\s+.+\bto\b|revoke\s+.+\bfrom\b|explain\s+\w+)",
    re.I | re.S,
)


def read_sql(text: str) -> Sql:
    """What the statements of `text` would do to a database."""
    whole = len(text) <= LONGEST_COMMAND and _is_unambiguous(text)
    plain = _SQL_RUN_COMMENT.sub(" ", _SQL_ASIDE.sub(_aside, _ends(text)))
    if "\\'" in text:
        plain += ";" + _ends(text)
    kinds: dict[str, None] = {}
    tables: dict[str, None] = {}
    destroys: dict[str, None] = {}
    everything, only_reads = False, True
    for statement in plain.split(";"):
        if not statement.strip():
            continue
        for kind in _kinds(statement):
            kinds[kind] = None
            if kind in _SQL_DESTROYS:
                destroys[kind.upper()] = None
            if kind in {"drop", "truncate"} or (kind in {"delete", "update"} and _without_where(statement)):
                everything = True
        only_reads = only_reads and _statement_reads(statement)
        tables |= {found.strip('"`[]'): None for found in _SQL_TABLE.findall(statement)}
    return Sql(
        statements=tuple(kinds),
        tables=tuple(tables),
        destroys=tuple(destroys),
        everything=everything,
        only_reads=whole and bool(kinds) and only_reads,
    )


def _aside(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] in '"`':
        return text[1:].rstrip('"`')
    return "''" if text[0] == "'" else " "


def _first_word(statement: str) -> str:
    found = re.match(r"[\s(]*([A-Za-z]+)", statement)
    return found[1].lower() if found else ""


def _kinds(statement: str) -> list[str]:
    first = _first_word(statement)
    kinds = [first if first in _SQL_KINDS else "other"]
    if first in {"with", "explain", "do", "call", "begin", "select"}:
        kinds += [inner.split()[0].lower() for inner in _SQL_INNER.findall(statement)]
    return kinds


def _statement_reads(statement: str) -> bool:
    if _first_word(statement) not in _SQL_READS or _SQL_INNER.search(statement) or _SQL_SIDE.search(statement):
        return False
    if not _SQL_WRITES.isdisjoint(word.lower() for word in _SQL_WORD.findall(statement)):
        return False
    return all(name.lower() in _SQL_HARMLESS for name in _SQL_CALL.findall(statement))


def _is_unambiguous(text: str) -> bool:
    """One statement that every database reads alike: no comment, escape, dollar quote or quoted name."""
    return not any(mark in text for mark in ("--", "#", "/*", "$", "\\", "`", '"')) and ";" not in text.rstrip().rstrip(
        ";"
    )


def _without_where(statement: str) -> bool:
    found = _SQL_WHERE.search(statement)
    return found is None or bool(_SQL_ALWAYS.search(found[1]))
