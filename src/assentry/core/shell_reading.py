"""Whether a shell command only reads: every program is known to, and with these words it does nothing else.

Two readers must agree where words and commands begin: the grammar of bash (shell_grammar.py) and the strict reader
below, which knows commands one after another or in pipes, plain words, quotes and a few redirections, and nothing else.
Nobody says which shell runs a text. So the strict reader also refuses what PowerShell, cmd.exe, zsh or a program that
splits the text itself would cut into other words, as far as that could do more than read.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from assentry.core.shell_grammar import Parsed

_ASCII = re.compile(r"[\t\n -~]*")
_BLANK = re.compile(r"[ \t]+")
_SEPARATOR = re.compile(r"&&|\|\||[;|\n]")
_REDIRECT = re.compile(r"(?:([012]?)(<<<|>>|>&|[<>])|&>>?)(?![<>&|(])")
_SINGLE = re.compile(r"'([^'\"&<>\n]*)(?<!\\)'")
"""None ends in a backslash: fish would read on. cmd.exe knows no such quotes: to it `"` `&` `<` `>` mean something."""
_DOUBLE = re.compile(r"\"((?:[^\"\\$`!\n]|\\[^\"$`\n]|\$(?=\"))*)\"")
_BARE = re.compile(r"[A-Za-z0-9_./=,:@%+*?\[\]-]+|\\[.*?+\[\]]|(?<=[A-Za-z0-9])~|(?<=[A-Za-z0-9^])\^(?=[ ^0-9.:]|\Z)")
_HOME = re.compile(r"~(?=/|[ \t\n;|]|\Z)")
_ALONE = re.compile(r"(?:!=?|\\[()])(?=[ \t\n]|\Z)")
"""What stands only as a word of its own: between letters `!` is history to some shells, and a bracket a call."""
_VARIABLE = re.compile(r"%\w*:~|%(?!C(?:red|green|blue|reset)%)\w{3,}%")
"""What cmd.exe would put something else in for, quotation marks perhaps."""
_GLOB = re.compile(r"[*?\[]")
_ENDING = re.compile(r"\.\w+$")
_FIXED_OPTION = re.compile(r"--[a-z-]+=")


@dataclass(slots=True)
class Word:
    start: int
    end: int = 0
    value: str = ""
    glob: int | None = None
    """Where in `value` the first pattern begins, if there is one."""
    single: bool = False
    """Partly in single quotes, which cmd.exe knows nothing of."""
    quoted: bool = False

    @property
    def pieces(self) -> list[str]:
        """The word, or the words that it is to a shell without single quotes."""
        return (self.value.split() if self.single else []) or [self.value]

    @property
    def readings(self) -> set[str]:
        """The word as bash reads it, and its pieces."""
        return {self.value, *self.pieces}


@dataclass(slots=True)
class Command:
    words: list[Word] = field(default_factory=list)
    redirects: list[tuple[str, Word]] = field(default_factory=list)

    @property
    def program(self) -> str:
        return self.words[0].value


def what_reads(text: str, parsed: Parsed) -> tuple[str, ...]:
    """The programs of `text`, if both readers understand all of it, agree about it, and find nothing but reading."""
    if not parsed.plain or (commands := commands_in(text)) is None or not _agree(commands, parsed):
        return ()
    return tuple(dict.fromkeys(command.program for command in commands)) if _only_read(commands) else ()


def _only_read(commands: Sequence[Command]) -> bool:
    moved, before = False, dict[str, re.Pattern[str]]()
    for command in commands:
        program, words = command.program, command.words[1:]
        reader = _READERS.get(program)
        if reader is None or command.words[0].quoted or not all(_leads_nowhere(*one) for one in command.redirects):
            return False
        if any(danger.match(piece) for danger in before.values() for word in words for piece in word.readings):
            return False
        if not _groups(words):
            return False
        if (program == "git" and moved) or not reader.reads(words):
            return False
        moved = moved or program == "cd"
        if reader.danger is not None:
            before[program] = reader.danger
    return True


def _agree(commands: Sequence[Command], parsed: Parsed) -> bool:
    """Both readers see the same words, and the same words begin commands."""
    words: list[tuple[int, int]] = []
    for command in commands:
        inside = command.words
        if command.program == "[":
            if inside[-1].value != "]":
                return False
            words.append((inside[0].start, inside[-1].end))
            inside = []
        words += ((word.start, word.end) for word in inside)
        words += ((word.start, word.end) for _, word in command.redirects)
    starts = sorted(min([word.start for word in command.words]) for command in commands)
    return sorted(words) == sorted(parsed.words) and starts == sorted(parsed.starts)


def _leads_nowhere(operator: str, target: Word) -> bool:
    """Into /dev/null, into standard output or error, or out of a file or a text that is written there."""
    if target.glob is not None:
        return False
    if operator == "<<<":
        return True
    if operator == ">&":
        return target.value in {"1", "2"} and not target.quoted
    if operator == "<":
        return bool(target.value) and ("/dev/" not in target.value or target.value == "/dev/null")
    return target.value == "/dev/null" and not target.quoted


def commands_in(text: str) -> list[Command] | None:
    """The commands of `text`, one after another; None where anything in it is not plain."""
    if not _ASCII.fullmatch(text) or _VARIABLE.search(text):
        return None
    commands = [Command()]
    at, between, redirect = 0, "\n", ""
    while at < len(text):
        now = commands[-1]
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif found := _REDIRECT.match(text, at):
            if redirect or not now.words:
                return None
            redirect, at = found[2] or found[0], found.end()
        elif found := _SEPARATOR.match(text, at):
            if redirect or (not now.words and found[0] != "\n"):
                return None
            if now.words:
                commands.append(Command())
                between = found[0]
            at = found.end()
        else:
            word = _word(text, at)
            if word is None:
                return None
            if redirect:
                now.redirects.append((redirect, word))
                redirect = ""
            else:
                now.words.append(word)
            at = word.end
    if not commands[-1].words:
        if redirect or between not in {";", "\n"}:
            return None
        commands.pop()
    return commands if commands and not redirect else None


def _word(text: str, start: int) -> Word | None:
    word, at = Word(start), start
    if found := _ALONE.match(text, at) or _HOME.match(text, at):
        word.value, at = found[0].removeprefix("\\"), found.end()
    while at < len(text) and text[at] not in " \t\n;|<>&":
        if found := _SINGLE.match(text, at) or _DOUBLE.match(text, at):
            is_single = text[at] == "'"
            body = found[1] if is_single else found[1].replace("\\\\", "\\")
            if is_single and "|" in body and _BLANK.search(body):
                return None
            word.single = word.single or is_single
            word.quoted = True
            word.value += body
            if at == start and found.end() < len(text) and text[found.end()] not in " \t\n;|":
                return None  # PowerShell begins another word here
        elif found := _BARE.match(text, at):
            piece = found[0]
            if piece[0] == "\\":
                word.quoted = True
                piece = piece[1:]
            elif word.glob is None and (pattern := _GLOB.search(piece)):
                word.glob = len(word.value) + pattern.start()
            word.value += piece
        else:
            return None
        at = found.end()
    word.end = at
    if at == start or word.value == "--%" or (word.value[:1] == "=" and word.value not in {"=", "=="}):
        return None
    return word


# What each program is known to do


@dataclass(frozen=True, slots=True)
class Reader:
    """How a program is used when it only reads."""

    options: re.Pattern[str] | None = None
    """The options with which it does. None: with every one it has."""
    operands: int | None = None
    """How many words that are no options it may have. None: any number, and patterns may stand for them."""
    says: Callable[[Sequence[Word]], bool] | None = None
    """A further condition, or, for a program of another grammar, the only one."""
    danger: re.Pattern[str] | None = None
    """Options that would make it do more, should whoever runs the text hand it the words of later commands as well."""

    def reads(self, words: Sequence[Word]) -> bool:
        """Whether with these words it only reads."""
        if self.says is not None and not self.says(words):
            return False
        options_may_follow, operands = True, 0
        for word in words:
            if word.glob is not None and not self._keeps_its_place(word, after=not options_may_follow):
                return False
            if self.options is not None and not all(map(self._is_known, word.readings)):
                return False
            for piece in word.pieces:
                if piece == "--":
                    options_may_follow = False
                elif not options_may_follow or not _is_option(piece):
                    operands += 1
        return self.operands is None or operands <= self.operands

    def _is_known(self, word: str) -> bool:
        """Wherever it stands: what follows `--` is no option, but not every program has heard of that."""
        return not _is_option(word) or word == "--" or (self.options is not None and bool(self.options.fullmatch(word)))

    def _keeps_its_place(self, word: Word, *, after: bool) -> bool:
        """Whatever files there are, what the pattern becomes is not taken for an option that nobody wrote."""
        if self.operands is not None:
            return False
        lead = word.value[: word.glob]
        if lead.startswith("-"):
            return self.options is None and _FIXED_OPTION.match(lead) is not None
        return bool(lead) or after or (self.options is None and _ENDING.search(word.value) is not None)


def _is_option(word: str) -> bool:
    return word[:1] == "-" and len(word) > 1


def _options(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_TEXT_FORMAT = _options(r"%-?\d*(?:\.\d+)?[sbcq]|%%")


def _formats(words: Sequence[Word]) -> bool:
    """A format that is written out, for texts alone.

    `-v` and `%n` set variables, PATH among them, and to zsh a number is a sum, in which variables can be set as well.
    """
    if not words or words[0].glob is not None or words[0].value[:1] == "-":
        return False
    return "%" not in _TEXT_FORMAT.sub("", words[0].value)


_TEST = _options(r"-(?:[bcdefghknprsuwxzLGNOSao]|nt|ot|ef)")


def _tests(words: Sequence[Word]) -> bool:
    """No `-v` or `-R`, whose operand may hold a subscript; no numbers: zsh calculates, and sums can set variables."""
    return all(
        word.glob is None and "[" not in word.value and (word.value[:1] != "-" or bool(_TEST.fullmatch(word.value)))
        for word in words
    )


def _goes(words: Sequence[Word]) -> bool:
    return len(words) == 1 and words[0].glob is None and words[0].value[:1] not in {"", "-"}


def _sorts(words: Sequence[Word]) -> bool:
    """Nothing that the `sort` of Windows takes for the file to write."""
    return not any(
        re.match(r"/o", reading, re.I) and "/" not in reading[1:] for word in words for reading in word.readings
    )


def _tells_time(words: Sequence[Word]) -> bool:
    return all(piece[:1] in {"-", "+"} for word in words for piece in word.pieces)


def _groups(words: Sequence[Word]) -> bool:
    """To PowerShell an opening bracket calls what follows; an option is not a program."""
    values = [None if word.quoted else word.value for word in words]
    follow = [word.value for word in words[1:]] + [""]
    return all(
        value != "(" or after[:1] == "-" or after in {"!", "("} for value, after in zip(values, follow, strict=False)
    )


_GIT_FORMAT = (
    r"--(?:format|pretty|date|diff-filter|color|word-diff|untracked-files|ignored|column|sort)(?:=(?:(?!%G).)*)?"
)
"""`%G` has a signature checked, by a program that the repository's settings name."""
_GIT_OPTIONS = _options(
    r"-[psbwnzuaMCirt\d]+|-U\d+|-[nLSG].*|--(?:oneline|stat|shortstat|numstat|name-only|name-status|graph|all|decorate"
    r"|short|porcelain|branch|cached|staged|no-color|follow|no-merges|merges|reverse|tags|abbrev-ref|show-toplevel"
    r"|no-patch|patch|summary|raw|check|exit-code|quiet|full-index|first-parent|left-right|cherry-pick|long|show-stash"
    r"|others|exclude-standard|modified|deleted|stage|error-unmatch|full-name|verify|symbolic-full-name|git-dir"
    r"|is-inside-work-tree|always|abbrev-commit|ignore-all-space|ignore-space-change|ignore-blank-lines|no-ext-diff"
    r"|no-textconv|no-renames|find-renames|minimal|merge-base|remotes|branches|relative|compact-summary|dirstat"
    r"|relative-date|show-current|list)"
    r"|--(?:porcelain|decorate|abbrev|short|stat|since|until|after|before|author|committer|grep|max-count|skip|unified)"
    rf"=.*|{_GIT_FORMAT}"
)
_GIT_READS = frozenset("status log diff show blame shortlog describe rev-parse ls-files ls-tree".split())
_GIT_LISTS = {
    "branch": _options(r"-[arv]+|--(?:all|remotes|list|show-current|verbose)"),
    "remote": _options(r"-v|--verbose"),
    "tag": _options(r"-l|--list"),
}
"""What only lists as long as it is given no name."""
_GIT_BEFORE = ("--no-pager", "-P", "--no-optional-locks")
_GIT_ANY = _options("|".join((_GIT_OPTIONS.pattern, *(each.pattern for each in _GIT_LISTS.values()), *_GIT_BEFORE)))


def _shows_history(words: Sequence[Word]) -> bool:
    values = [piece for word in words for piece in word.pieces]
    while values and values[0] in _GIT_BEFORE:
        values.pop(0)
    if not values:
        return False
    if listed := _GIT_LISTS.get(values[0]):
        return all(listed.fullmatch(value) for value in values[1:])
    return values[0] in _GIT_READS and all(
        _GIT_OPTIONS.fullmatch(value) for value in values[1:] if _is_option(value) and value != "--"
    )


_READERS: dict[str, Reader] = dict.fromkeys(
    """ls cat head tail grep egrep fgrep wc pwd whoami id uname echo stat du df ps which type diff cmp cut tr nl
    basename dirname realpath readlink printenv uptime free groups locale cal sleep true false jq md5sum sha256sum
    tac rev paste comm join fold od seq nproc sha1sum sha512sum cksum""".split(),
    Reader(),
) | {
    "printf": Reader(says=_formats),
    "test": Reader(says=_tests),
    "[": Reader(says=_tests),
    "cd": Reader(says=_goes),
    "uniq": Reader(
        _options(r"-[cdDiuz]+|-[fsw]\d+|--(?:count|repeated|unique|ignore-case|all-repeated(?:=\w+)?)"), operands=1
    ),
    "date": Reader(
        _options(r"-u|--utc|-R|-I[a-z]*|--rfc-email|--iso-8601(?:=[a-z]+)?|--rfc-3339=[a-z]+|--date=.*"),
        says=_tells_time,
    ),
    "find": Reader(
        _options(
            r"-(?:i?name|i?path|i?wholename|type|size|[acm]time|[acm]min|newer(?:[acm]t)?|maxdepth|mindepth|print0?|printf"
            r"|empty|user|group|perm|not|o|or|a|and|prune|ls|i?regex|regextype|xdev|mount|depth|quit|true|false|samefile|inum"
            r"|links|readable|writable|executable|L|H|P|\d+[kMGcwb]?)"
        ),
        danger=_options(r"-(?:exec|ok|delete|fls|fprint)"),
    ),
    "sort": Reader(
        _options(
            r"-[rnuhVfbcgisMzdCR]+|-k[\d.,bdfgiMhnRrV]*|-t.?"
            r"|--(?:reverse|numeric-sort|unique|human-numeric-sort|version-sort|ignore-case|stable|check|zero-terminated)"
            r"|--(?:key|field-separator)=.*"
        ),
        says=_sorts,
        danger=_options(r"-\w*o|--o|--comp"),
    ),
    "tree": Reader(
        _options(r"-[adfhpsugDCFLiIPlxrtcv\d]+|--(?:noreport|gitignore|dirsfirst|du|prune)"),
        danger=_options(r"-\w*[oR]|--o"),
    ),
    "file": Reader(
        _options(r"-[bikL]+|--(?:brief|mime|mime-type|dereference|keep-going)"), danger=_options(r"-\w*C|--comp")
    ),
    "rg": Reader(
        _options(
            r"-[inlcvwFHNSshoxUuaPLegtTABCm\d]+|-[gtT][\w*./!-]+|--(?:hidden|no-ignore|count|files|files-with-matches"
            r"|no-heading|json|stats|fixed-strings|ignore-case|smart-case|line-number|word-regexp|multiline|no-line-number"
            r"|only-matching|invert-match|no-filename|with-filename|count-matches|files-without-match|trim|pcre2)"
            r"|--(?:glob|iglob|type|type-not|context|after-context|before-context|max-count|max-depth|sort|sortr|color"
            r"|regexp)(?:=.*)?"
        ),
        danger=_options(r"--(?:pre|host)"),
    ),
    "git": Reader(_GIT_ANY, says=_shows_history, danger=_options(r"--(?:ou|ext|textc|show-s)")),
}  # fmt: skip


def every_reader() -> Iterator[str]:
    """The names of all programs that may count as only reading."""
    return iter(_READERS)
