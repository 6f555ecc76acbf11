"""Where the links in a text lead, read as browsers and as the standard read them: they differ on purpose-made ones."""

import re

MOST_LINKS = 50
_MOST_FOUND = 500
_HOST = r"[A-Za-z0-9_][A-Za-z0-9_-]*+(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*+)*+\.?"
_PLAIN = re.compile(rf"(?i:https?|ftp|wss?)://(?P<host>{_HOST})(?::\d{{1,5}})?(?:/[!-\[\]-~]*+|[?#][!-?A-\[\]-~]*+)?")
"""A link that every program reads alike: nothing before the host, no backslash, no @ that may end it."""
_PLAIN_HOST = re.compile(rf"(?:{_HOST}|\[[0-9a-f:.]+\])(?::\d{{0,5}})?", re.I)
_LINK = re.compile(r"\b(?:(?:https?|ftp|wss?):(?P<slashes>[/\\]{0,8})|(?=www\.))(?=(?P<rest>[^\s<>\"']+))", re.I)
_BROWSER_END = re.compile(r"[/?#\\]")
_STANDARD_END = re.compile(r"[/?#]")
_PORT = re.compile(r"(?:[^:]*|\[[^\]]*\]?)(?::\d{0,5})?$")
_AROUND = ".,;:!*_`)}"
_USERINFO = re.compile(r"://[^\s/?#<>\"']{0,2000}@")
_BARE_ADDRESS = re.compile(
    r"^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\]|localhost|0x[0-9a-f]+|\d{8,10})(?::\d+)?$", re.I
)
_LONGEST_HOST = 253


def host_of(link: str) -> str:
    """The host that every program takes `link` to lead to, or nothing where they may differ."""
    found = _PLAIN.fullmatch(link)
    return found["host"].lower().rstrip(".") if found is not None and len(found["host"]) <= _LONGEST_HOST else ""


def hosts_in(text: str) -> tuple[dict[str, bool], bool]:
    """Every host that a link in `text` may lead to, and whether the link hides where it leads; and whether that is all
    of them.

    What stands before the last @ of an address (a name, a password) is no host, and is never repeated.
    """
    hosts: dict[str, bool] = {}
    for number, found in enumerate(_LINK.finditer(text)):
        if number >= _MOST_FOUND or len(hosts) > MOST_LINKS:
            hosts.pop("", None)
            return hosts, False
        rest = found["rest"]
        if found["slashes"] == "" and "." not in _BROWSER_END.split(rest, maxsplit=1)[0]:
            continue
        readings = dict.fromkeys(end.split(rest, maxsplit=1)[0] for end in (_BROWSER_END, _STANDARD_END))
        odd = len(readings) > 1 or found["slashes"] not in ("//", None)
        if "@" in rest and not all(_is_plain(each.rpartition("@")[2]) for each in readings):
            readings[_STANDARD_END.split(rest.rpartition("@")[2], maxsplit=1)[0]] = None
        if re.match(r"[^/]*[?#][^/]*@", rest):
            readings[_BROWSER_END.split(rest.rpartition("@")[2], maxsplit=1)[0]] = None
        for each in readings:
            user, at, host = each.lower().rpartition("@")
            host = _bare(host, at_end=rest.endswith(each))
            hides = odd or len(readings) > 1 or bool(at and "." in user) or is_odd_host(host)
            hosts[host] = hosts.get(host, False) or hides
    hosts.pop("", None)
    return hosts, True


def _bare(host: str, *, at_end: bool = True) -> str:
    """The host without its sign for a port that is none, and without what stands behind a link that ends with it."""
    if at_end:
        host = host.rstrip(_AROUND + "]") if "[" not in host else host.rstrip(_AROUND)
    return (host if _PORT.match(host) else host.partition(":")[0]).rstrip(".:")


def _is_plain(host: str) -> bool:
    return _PLAIN_HOST.fullmatch(_bare(host)) is not None


def without_userinfo(text: str) -> str:
    """`text` with the name and password taken out of every web address in it."""
    return _USERINFO.sub("://", text) if "@" in text and "://" in text else text


def is_odd_host(host: str) -> bool:
    """The host hides what it is: a bare number, letters from another script, or nothing that a host may be."""
    if "xn--" in host or not host.isascii() or len(host) > _LONGEST_HOST or _BARE_ADDRESS.match(host):
        return True
    return bool(host) and _PLAIN_HOST.fullmatch(host) is None
