"""The text of a condition as a tree. What the names in it mean, and what it gives, is no concern of this module.

The grammar is that of CEL (the Common Expression Language) without messages, bytes and unsigned numbers.
"""

import re
from dataclasses import dataclass
from typing import Any

from assentry.core.condition_errors import unreadable
from assentry.errors import PolicyError

MAX_NESTING = 32
MAX_HEIGHT = 64
LOOPS = frozenset(("all", "exists", "exists_one", "map", "filter"))
NESTED = "the condition nests too deeply; simplify it"

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)"""
    r"""|(?P<text>(?:[rR]?[bB]?|[bB][rR])(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"""
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)"""
    r"""|(?P<int>0[xX][0-9a-fA-F]+|\d+)"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<quoted>`[A-Za-z0-9_./ -]+`)"""
    r"""|(?P<sign>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])"""
    r"""|(?P<odd>.)""",
    re.DOTALL,
)
_RAW = re.compile(r"""(?:[rR][bB]?|[bB][rR])(?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n]*"|'[^'\n]*')""", re.DOTALL)
"""In a raw text a backslash is a backslash, and does not hide the quote behind it."""
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_PLAIN_ESCAPES = dict(zip("abfnrtv\\\"'`?", "\a\b\f\n\r\t\v\\\"'`?", strict=True))
_RESERVED = frozenset(
    "as break const continue else for function if import let loop package namespace return var void while".split()
)
_RELATIONS = frozenset(("==", "!=", "<", "<=", ">", ">=", "in"))
_CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Node:
    """One step of the condition. `what` says which: const, name, select, has, index, call, loop, list, map, if, not,
    neg, and, or, or the sign of an operator."""

    what: str
    at: int
    """Where it stands in the text; of a field or a function, where its name stands."""
    parts: tuple["Node", ...] = ()
    value: Any = None
    """The constant, the name, the field, the function; of a loop its kind and the name of its element."""
    is_member: bool = False
    height: int = 0

    @property
    def begin(self) -> int:
        """Where what it is made of begins."""
        return min([self.at, *(part.begin for part in self.parts)])


def parsed(text: str) -> Node:
    """The condition as a tree, or a `PolicyError` that says where it cannot be read."""
    reader = _Reader(text)
    found = reader.expression()
    if reader.token[0] != "end":
        raise reader.misplaced()
    return found


class _Reader:
    """Reads from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._nesting = 0

    @property
    def token(self) -> tuple[str, str, int]:
        return self._tokens[self._next]

    def misplaced(self, missing: str = "") -> PolicyError:
        """What to say of the token that comes next."""
        kind, written, at = self.token
        before = self._tokens[self._next - 1][1] if self._next else ""
        return PolicyError(unreadable(self._text, at, "" if kind == "end" else written, before, missing))

    def expression(self) -> Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise PolicyError(NESTED)
        found = self._joined("||", "or")
        if at := self._taken("?"):
            yes = self._joined("||", "or")
            self._expect(":")
            found = _node("if", at - 1, (found, yes, self.expression()))
        self._nesting -= 1
        return found

    def _joined(self, sign: str, what: str) -> Node:
        """Any number of parts joined by `||` or `&&`: one node, however many they are."""
        one = self._joined("&&", "and") if sign == "||" else self._relation()
        at = self.token[2]
        parts = [one]
        while self._taken(sign):
            parts.append(self._joined("&&", "and") if sign == "||" else self._relation())
        return _node(what, at, tuple(parts)) if len(parts) > 1 else one

    def _relation(self) -> Node:
        found = self._sum()
        while self.token[1] in _RELATIONS and self.token[0] in ("sign", "name"):
            _, sign, at = self._advance()
            found = _node(sign, at, (found, self._sum()))
        return found

    def _sum(self) -> Node:
        found = self._product()
        while self.token[0] == "sign" and self.token[1] in "+-":
            _, sign, at = self._advance()
            found = _node(sign, at, (found, self._product()))
        return found

    def _product(self) -> Node:
        found = self._unary()
        while self.token[0] == "sign" and self.token[1] in "*/%":
            _, sign, at = self._advance()
            found = _node(sign, at, (found, self._unary()))
        return found

    def _unary(self) -> Node:
        kind, sign, at = self.token
        if kind == "sign" and sign in "!-":
            count = 0
            while self._taken(sign):
                count += 1
            if sign == "-" and count == 1 and self.token[0] in ("int", "float"):
                return self._member(negative=True)
            what = "not" if sign == "!" else "neg"
            found = self._member()
            for _ in range(2 - count % 2):
                found = _node(what, at, (found,))
            return found
        return self._member()

    def _member(self, *, negative: bool = False) -> Node:
        found = self._primary(negative=negative)
        while self.token[0] == "sign":
            if self._taken("."):
                kind, name, at = self.token
                if kind not in ("name", "quoted") or name in ("in", *_CONSTANTS):
                    raise self.misplaced()
                self._advance()
                if kind == "name" and self.token[1] == "(":
                    found = self._call(name, at, found)
                else:
                    found = _node("select", at, (found,), name.strip("`"))
            elif at := self._taken("["):
                inner = self.expression()
                self._expect("]")
                found = _node("index", at - 1, (found, inner))
            else:
                break
        return found

    def _call(self, name: str, at: int, target: Node | None) -> Node:
        self._expect("(")
        given = self._listed(")")
        if target is None and name == "has":
            if len(given) != 1 or given[0].what != "select":
                raise PolicyError(unreadable(self._text, at, "has", "", "field"))
            return _node("has", given[0].at, given[0].parts, given[0].value)
        if target is not None and name in LOOPS and len(given) in ((2, 3) if name == "map" else (2,)):
            if given[0].what != "name":
                raise PolicyError(unreadable(self._text, given[0].begin, name, "", "element"))
            return _node("loop", at, (target, *given[1:]), (name, given[0].value))
        return _node("call", at, (target, *given) if target is not None else given, name, is_member=target is not None)

    def _primary(self, *, negative: bool) -> Node:
        kind, written, at = self.token
        if kind == "name" and written in _RESERVED:
            raise PolicyError(unreadable(self._text, at, written, "", "reserved"))
        if kind == "sign" and written in "([{":
            self._advance()
            match written:
                case "(":
                    found = self.expression()
                    self._expect(")")
                    return found
                case "[":
                    return _node("list", at, self._listed("]"))
                case _:
                    return _node("map", at, self._listed("}", pairs=True))
        if kind in ("end", "sign", "odd", "quoted") or written == "in":
            raise self.misplaced()
        self._advance()
        if kind == "text":
            return Node("const", at, value=self._said(written, at))
        if kind in ("int", "float"):
            return Node("const", at, value=self._number(written, at, negative=negative))
        if written in _CONSTANTS:
            return Node("const", at, value=_CONSTANTS[written])
        if self.token[1] == "(":
            return self._call(written, at, None)
        return Node("name", at, value=written)

    def _listed(self, end: str, *, pairs: bool = False) -> tuple[Node, ...]:
        found: list[Node] = []
        while self.token[1] != end or self.token[0] != "sign":
            found.append(self.expression())
            if pairs:
                self._expect(":")
                found.append(self.expression())
            if not self._taken(","):
                break
        self._expect(end)
        return tuple(found)

    def _number(self, written: str, at: int, *, negative: bool) -> int | float:
        kind, after, _ = self.token
        if kind == "name" or (kind in ("int", "float") and self._text[self.token[2] - 1 : self.token[2]].isdigit()):
            if after in ("u", "U") or after.startswith("_"):
                raise self.misplaced()
            if self._text[at + len(written) : at + len(written) + 1].isalpha():
                raise self.misplaced()
        sign = -1 if negative else 1
        if written[:2] in ("0x", "0X"):
            number: int | float = sign * int(written, 16)
        elif written.isdigit():
            number = sign * int(written)
        else:
            return sign * float(written)
        if not -(2**63) <= number < 2**63:
            raise PolicyError(unreadable(self._text, at, written, "", "large"))
        return number

    def _said(self, written: str, at: int) -> str:
        head = written[: min(written.find(quote) for quote in "\"'" if quote in written)]
        if head.lower().strip("r"):
            raise PolicyError(unreadable(self._text, at, head, "", "bytes"))
        body = written[len(head) :]
        width = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1
        body = body[width:-width]
        if head:
            return body
        wrong = ""

        def meant(found: re.Match[str]) -> str:
            nonlocal wrong
            if found[5] is not None:
                if found[5] not in _PLAIN_ESCAPES:
                    wrong = found[0]
                return _PLAIN_ESCAPES.get(found[5], "")
            number = int(found[4], 8) if found[4] else int(found[1] or found[2] or found[3], 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000 or not number:
                wrong = found[0]
                return ""
            return chr(number)

        made = _ESCAPE.sub(meant, body)
        if wrong:
            raise PolicyError(unreadable(self._text, at, wrong, "", "escape"))
        return made

    def _advance(self) -> tuple[str, str, int]:
        token = self.token
        self._next += 1
        return token

    def _taken(self, sign: str) -> int:
        """One more than where `sign` stands, if it comes next; then it is behind us."""
        kind, written, at = self.token
        if kind != "sign" or written != sign:
            return 0
        self._next += 1
        return at + 1

    def _expect(self, sign: str) -> None:
        if not self._taken(sign):
            raise self.misplaced(sign)


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text):
        match = _RAW.match(text, at) if text[at] in "rRbB" else None
        kind = "text"
        if match is None:
            match = _TOKEN.match(text, at)
            assert match is not None  # noqa: S101  `odd` takes any character
            kind = str(match.lastgroup)
        if kind != "skip":
            found.append((kind, match[0], at))
        at = match.end()
    return [*found, ("end", "", len(text))]


def _node(what: str, at: int, parts: tuple[Node, ...], value: Any = None, *, is_member: bool = False) -> Node:
    height = 1 + max((part.height for part in parts), default=0)
    if height > MAX_HEIGHT:
        raise PolicyError(NESTED)
    return Node(what, at, parts, value, is_member, height)
