"""What a shell command or an SQL text would do, read from the text alone.

Reading here is deliberately suspicious. Alarms add up: what either the phrases below or the grammar of bash
(shell_grammar.py) finds in a command is told. A command counts as only reading (shell_reading.py) when every part of it
is known to and nothing here finds fault with it; what is not understood counts against it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from assentry.core.shell_grammar import Parsed, parse_shell
from assentry.core.shell_reading import what_reads

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
_ADMIN = frozenset({"sudo", "doas"})
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
_SHELLS = frozenset("sh bash zsh dash ksh csh fish cmd powershell pwsh python python3 perl ruby node".split())
_TO_SHELL = re.compile(
    r"\|\s*(?:sudo\s+)?(?:\S{0,100}/)?(?:ba|z|da|k|c)?sh\b|\|\s*(?:sudo\s+)?(?:python3?|perl|ruby|node|pwsh)\b|\beval\b|base64\s+(?:-d|--decode)"
    r"|\b(?:ba|z|da|k|c)?sh\b[^\n;|&]{0,300}<\(|\b(?:ba|z|da|k|c)?sh\s+-\w*c\s+[\"']?(?:\$\(|`)|(?:\bsource|(?:^|[;&|\s])\.)\s+<\("
)
_SUBSTITUTION = re.compile(r"`|\$\(|<\(|>\(|\$\{")
_SEPARATOR = re.compile(r"\|\||&&|[;|&\n]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_ASSIGNMENT = re.compile(r"^\w+=")
_NEVER_READS = frozenset(_DESTROYERS) | _NETWORK | _WRAPPERS | _SHELLS
_ANYWHERE = re.compile(r"[|&;<>\n]")
_INNER_COMMAND = re.compile(
    r"\$\(([^()]{1,2000})\)|`([^`]{1,2000})`|\s-c\s+'([^']{1,2000})'|\s-c\s+\"([^\"]{1,2000})\""
)


def read_shell(text: str) -> Shell:
    """What `text` would do if a shell ran it."""
    whole = len(text) <= LONGEST_COMMAND
    text = _ends(text)
    parsed = parse_shell(text)
    bare = _QUOTED.sub(_keep_substitutions, text)
    texts = (text,) if parsed is None or parsed.bare == text else (text, parsed.bare)
    programs = dict.fromkeys(_programs_in(text, bare, parsed))
    destroys = {_DESTROYERS[program]: None for program in programs if program in _DESTROYERS}
    destroys |= {says: None for pattern, says in _PHRASES if any(map(pattern.search, texts))}
    to_shell = (
        any(map(_TO_SHELL.search, texts))
        or ("|" in bare and "xargs" in programs and bool(destroys))
        or (parsed is not None and parsed.computed)
    )
    sudo = not _ADMIN.isdisjoint(programs)
    outside = not _NETWORK.isdisjoint(programs) or "/dev/tcp/" in text
    readers: tuple[str, ...] = ()
    if (
        whole
        and parsed is not None
        and not (destroys or to_shell or sudo or outside or _SUBSTITUTION.search(text))
        and _NEVER_READS.isdisjoint(_words_that_could_run(text))
    ):
        readers = what_reads(text, parsed)
    return Shell(
        programs=readers or tuple(programs),
        destroys=tuple(destroys),
        everything=bool(destroys) and any(map(_EVERYTHING.search, texts)),
        sudo=sudo,
        to_shell=to_shell,
        outside=outside,
        only_reads=bool(readers),
    )


def _programs_in(text: str, bare: str, parsed: Parsed | None) -> Iterable[str]:
    """What is run, as the separators tell it, and then what only the grammar finds: in quotes, functions and loops."""
    for part in _SEPARATOR.split(bare):
        yield from _programs(part.split())
    for inner in _INNER_COMMAND.findall(text):
        for part in _SEPARATOR.split("".join(inner)):
            yield from _programs(part.split())
    if parsed is not None:
        for words in parsed.commands:
            yield from _programs(words)


def _words_that_could_run(text: str) -> Iterable[str]:
    """The word after each separator, in quotes or not: cmd.exe, for one, knows no single quotes."""
    return (_program(words[0]) for part in _ANYWHERE.split(text) if (words := part.split()))


def _ends(text: str) -> str:
    return text if len(text) <= LONGEST_COMMAND else text[:6_000] + "\n" + text[-2_000:]


def _keep_substitutions(found: re.Match[str]) -> str:
    inside = found[0]
    return inside if inside[0] == '"' and _SUBSTITUTION.search(inside) else "''"


def _program(word: str) -> str:
    return word.rsplit("/", 1)[-1].strip("\"'(){}$`").lower().removesuffix(".exe")


def _programs(part: Sequence[str]) -> list[str]:
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
