"""What tree-sitter's grammar of bash makes of a text: the commands in it, and whether it holds nothing but plain ones.

Nothing is decided here. What is not in `PLAIN`, and what the grammar cannot make out, is not plain.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

LONGEST = 3_000
MOST_SIGNS = 150
"""Recovering from errors takes time that grows with the square of these: 8,000 of them take a third of a second."""
DEEPEST = 24

PLAIN = frozenset(
    """program list pipeline command command_name redirected_statement file_redirect herestring_redirect
    file_descriptor word number raw_string string string_content concatenation
    test_command unary_expression binary_expression test_operator""".split()
)
"""The kinds of nodes that commands without expansions, loops, functions and background jobs are made of."""
_PLAIN_SIGNS = frozenset(["&&", "||", ";", "|", "\n", ">", ">>", ">&", "&>", "&>>", "<", "<<<", '"', "$", "[", "]"])
_TEST_SIGNS = _PLAIN_SIGNS | {"!", "=", "==", "!=", "-a", "-o"}
_WORDS = frozenset("word number raw_string string concatenation ansi_c_string translated_string".split())
_ASIDE = frozenset("comment file_redirect herestring_redirect heredoc_redirect".split())
_COMPUTED = re.compile(r"\"?(?:\$\w+|\$\{[^{}]*\})\"?|.*(?:\$\(|`).*", re.S)
_FOREIGN = re.compile(r"[^\x00-\x7f]")
"""Never shown to the grammar: its scanner asks C if they are letters, which reads far beyond a table and can crash.
What stands for each is one byte, so that places in the text and in the tree are the same.
"""
_SIGN = re.compile(r"[^\w\s./=,:@%+-]")
_QUOTED = re.compile(r"\$?'([^']*)'|\$?\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.S)
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.S)
_ANSI_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.S)
_ANSI_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text as the grammar reads it."""

    plain: bool
    """Every node is of a kind in `PLAIN`, nothing is missing, and nothing nests deeply."""
    commands: tuple[tuple[str, ...], ...]
    """The words of each command, however deep it stands, without their quotes; empty where there were errors."""
    starts: tuple[int, ...]
    """Where each command begins."""
    words: tuple[tuple[int, int], ...]
    """Where each word begins and ends; a test in brackets is one word."""
    bare: str
    """The text with the quotes of every word taken off."""
    computed: bool
    """The name of a program is not written down: something is put in for it when the command runs."""


def parse_shell(text: str) -> Parsed | None:
    """What the grammar makes of `text`; None where it would take too long to find out."""
    if len(text) > LONGEST or len(_SIGN.findall(text)) > MOST_SIGNS:
        return None
    from tree_sitter import Parser

    root = Parser(_language()).parse(_FOREIGN.sub("_", text).encode("ascii")).root_node
    is_plain, computed = not root.has_error, False
    commands: list[tuple[str, ...]] = []
    starts: list[int] = []
    words: list[tuple[int, int]] = []
    nodes: list[tuple[Node, int, bool, bool]] = [(root, 0, False, False)]
    while nodes:
        node, depth, in_word, in_test = nodes.pop()
        kind = node.type
        is_plain = is_plain and depth <= DEEPEST and (not node.is_missing) and _is_plain(node, in_test=in_test)
        if kind == "command":
            starts.append(node.start_byte)
            commands.append(
                tuple(
                    unquoted(text[child.start_byte : child.end_byte])
                    for child in node.named_children
                    if child.type not in _ASIDE
                )
            )
        elif kind == "test_command" and not in_test:
            starts.append(node.start_byte)
            words.append((node.start_byte, node.end_byte))
            in_test = True
        elif kind == "command_name":
            computed = computed or _COMPUTED.fullmatch(text[node.start_byte : node.end_byte]) is not None
        elif kind in _WORDS and not in_word and not in_test:
            words.append((node.start_byte, node.end_byte))
            in_word = True
        nodes += ((child, depth + 1, in_word, in_test) for child in reversed(node.children))
    return Parsed(
        plain=is_plain,
        commands=() if root.has_error else tuple(commands),
        starts=tuple(starts),
        words=tuple(words),
        bare=_bare(text, words),
        computed=computed and not root.has_error,
    )


@cache
def _language() -> "Language":
    """The grammar, loaded when the first command is read: most processes never read one."""
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


def _is_plain(node: "Node", *, in_test: bool) -> bool:
    if node.is_named:
        return node.type in PLAIN
    return node.type in (_TEST_SIGNS if in_test else _PLAIN_SIGNS)


def unquoted(word: str) -> str:
    """The word as a program is given it, as far as that stands in the text."""
    word = _ANSI.sub(lambda found: "'" + _ANSI_ESCAPE.sub(_escaped, found[1]).replace("'", "") + "'", word)
    return _QUOTED.sub(_inside, word)


def _inside(found: re.Match[str]) -> str:
    single, double, escaped = found.groups()
    if escaped is not None:
        return "" if escaped == "\n" else escaped
    return single if single is not None else re.sub(r"\\([\"\\$`])", r"\1", double)


def _escaped(found: re.Match[str]) -> str:
    *numbers, octal, letter = found.groups()
    if letter is not None:
        return _ANSI_LETTERS.get(letter, letter)
    code = int(octal, 8) if octal else int(next(filter(None, numbers)), 16)
    return chr(code) if code < 0x110000 else ""


def _bare(text: str, words: list[tuple[int, int]]) -> str:
    made, at = list[str](), 0
    for start, end in sorted(words):
        if start >= at:
            made += (text[at:start], unquoted(text[start:end]))
            at = end
    return "".join((*made, text[at:]))
