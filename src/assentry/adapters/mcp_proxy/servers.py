"""Which servers are meant: a command, an address, or a file that lists several, as clients have it."""

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from assentry.adapters.mcp_proxy.streamable import shown
from assentry.core.secret_text import without_secrets
from assentry.errors import SettingsError

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_NAME = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_NAMES_SECRET = re.compile(r"token|key|secret|passw|auth|cred|header", re.I)
_LEFT_OUT = "***"
_MOST_SHOWN = 200
_KEYS = {"command", "args", "env", "url", "headers", "type", "trusted"}


@dataclass(frozen=True, slots=True)
class Server:
    """One server, and how it is reached. What it is given may be secret, so none of it is shown."""

    name: str
    command: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted: bool = False
    login: str = ""
    """Which login it is used with; with another one it is another server, for it may do other things."""
    is_named: bool = True
    """The operator gave it its name, and means the same server by it from now on."""

    @property
    def notes(self) -> str:
        """Where it is written down how its tools were described: by its name, or by what is started or spoken to."""
        return self.name if self.is_named else f"{self.name}\0{_digest([self.command, self.url])}"

    @property
    def identity(self) -> str:
        """A digest of all that makes it: two servers of one name, or of one command otherwise started, are two."""
        where = str(Path.cwd()) if self.command else ""
        return _digest(
            [
                self.name, self.command, where, sorted(self.env.items()), self.url, sorted(self.headers.items()),
                *([self.login] if self.login else []),
            ]
        )  # fmt: skip

    @property
    def takes_login(self) -> bool:
        """It is elsewhere, and nobody said in a header who calls it."""
        return bool(self.url) and not any(name.lower() == "authorization" for name in self.headers)

    @property
    def place(self) -> str:
        """Where it is, without what may be secret in it; for whoever decides."""
        if self.url:
            return f", at {shown(self.url)}"
        told = without_secrets(shlex.join(_discreet(self.command)))
        if len(told) > 2 * _MOST_SHOWN:
            told = f"{told[:_MOST_SHOWN]} … {told[-_MOST_SHOWN:]}"
        return f", started as: {told}" if told else ""


def _digest(parts: list[Any]) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


def _discreet(command: Sequence[str]) -> Iterator[str]:
    """The words of a command; what a word that names a secret is followed by is left out."""
    follows = False
    for word in command:
        name, equals, _ = word.partition("=")
        is_named = bool(_NAMES_SECRET.search(name))
        if follows and not word.startswith("-"):
            yield _LEFT_OUT
            follows = False
            continue
        yield f"{name}={_LEFT_OUT}" if equals and is_named else word
        follows = is_named and not equals and word.startswith("-")


def at(url: str, headers: Sequence[str], name: str = "", *, trusted: bool = False) -> Server:
    """The server at this address."""
    shown(url)
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    given = dict(_header(each) for each in headers)
    return Server(name or host, url=url, headers=given, trusted=trusted, is_named=bool(name))


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise SettingsError("a header is 'Name: value'; the value may name a variable, as in 'Bearer ${TOKEN}'")
    return name.strip(), _sendable(name.strip(), expanded(value.strip()))


def _sendable(name: str, value: str) -> str:
    if not name or not (name + value).isascii() or not (name + value).isprintable() or " " in name:
        raise SettingsError(f"the header {name!a} cannot be sent; names and values are printable ASCII")
    return value


def expanded(text: str) -> str:
    """The text with `${NAME}` and `${NAME:-otherwise}` from the environment; the error names the variable alone."""

    def value(match: re.Match[str]) -> str:
        name, otherwise = match.groups()
        found = os.environ.get(name, otherwise)
        if found is None:
            raise SettingsError(f"the variable {name} is not set; set it where assentry mcp is started")
        return found

    return _VARIABLE.sub(value, text)


def listed(file: Path, *, trusted: bool = False) -> list[Server]:
    """The servers of a file: {"mcpServers": {NAME: {"command": …} or {"url": …}}}."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"there is no file {file}; --config names one that lists servers") from None
    except (OSError, ValueError, RecursionError) as problem:
        raise SettingsError(f"{file} cannot be read as JSON: {type(problem).__name__}") from None
    servers = document.get("mcpServers") if isinstance(document, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise SettingsError(f'{file} lists no servers; it is {{"mcpServers": {{NAME: {{"command": …}}}}}}')
    return [_server(str(name), said, trusted) for name, said in servers.items()]


def _server(name: str, said: Any, trusted: bool) -> Server:
    where = f"the server {name!a}"
    if not _NAME.fullmatch(name) or len(name) > 40:
        raise SettingsError(f"{where} needs another name: at most 40 letters, digits, dashes and single underscores")
    if not isinstance(said, dict) or (unknown := sorted(set(said) - _KEYS)):
        extra = f", not {unknown[0]!a}" if isinstance(said, dict) else ""
        raise SettingsError(f"{where} has {', '.join(sorted(_KEYS))}{extra}")
    command, url, args = said.get("command"), said.get("url"), said.get("args", [])
    if (isinstance(command, str) and bool(command)) == (isinstance(url, str) and bool(url)):
        raise SettingsError(f"{where} has a command or a url, one of them")
    if said.get("type") not in (None, "stdio", "http", "streamable-http", "streamableHttp"):
        raise SettingsError(f"{where} is of a kind that is not known here; there are stdio and http")
    if not isinstance(args, list) or not all(isinstance(each, str) for each in args):
        raise SettingsError(f"the args of {where} are a list of texts")
    vouched = said.get("trusted", trusted)
    if not isinstance(vouched, bool):
        raise SettingsError(f"{where}: trusted is true or false")
    env, headers = (_texts(where, each, said.get(each, {})) for each in ("env", "headers"))
    if url:
        address = expanded(url)
        shown(address)
        return Server(
            name, url=address, headers={each: _sendable(each, text) for each, text in headers.items()}, trusted=vouched
        )
    return Server(name, tuple(expanded(each) for each in (str(command), *args)), env, trusted=vouched)


def _texts(where: str, what: str, found: Any) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise SettingsError(f"{where}: {what} are texts by name")
    return {str(name): expanded(text) for name, text in found.items()}
