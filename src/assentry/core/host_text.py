"""Which hosts are not on the public internet: this machine, its networks, and services that hand out its keys.

Read from the text alone, in every spelling that programs take for an address. What a public name resolves to is not
looked up.
"""

import ipaddress
import re
import unicodedata
from urllib.parse import unquote

from assentry.core.link_text import MOST_LINKS, hosts_in

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA = frozenset(
    """169.254.169.254 169.254.169.253 169.254.170.2 169.254.170.23 fd00:ec2::254 fd00:ec2::23 100.100.100.200
    192.0.0.192 168.63.129.16 metadata.google.internal metadata.goog instance-data""".split()
)
"""Where machines in a cloud are given their credentials."""
_PRIVATE_ENDINGS = frozenset(
    """localhost localdomain local internal intranet lan home corp private cluster svc nip.io sslip.io xip.io
    localtest.me lvh.me home.arpa""".split()
)
"""Endings that no public name server knows, and those of public names that stand for any address one likes."""
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]{0,30}:)?[a-z][a-z0-9+.-]{0,30}:(?=[/\\])|(?:https?|ftp|wss?):(?=\d)", re.I)
_END = re.compile(r"[/?#\\\s]")
_NUMBER = re.compile(r"0x[0-9a-f]*|\d+", re.I)
_WORD = re.compile(r"[^\s'\"|&;<>(){}`,=]{1,400}")
LONGEST_HOST = 300
_LEAST_BARE = 1 << 24
"""A smaller number in a command is a number, and no address."""
_DOTS = str.maketrans("。．｡", "...")  # noqa: RUF001  three that browsers read as dots


def private_host(host: str) -> str:
    """The host as the address or name that it stands for, if that is not on the public internet; otherwise nothing."""
    host = unicodedata.normalize("NFKC", unquote(host).translate(_DOTS)).strip().lower()
    host = "".join(char for char in host if unicodedata.category(char) != "Cf")
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    host = host.partition("%")[0].rstrip(".!")
    if addresses := _addresses(host):
        return next((str(each) for each in addresses if _is_private(each)), "")
    if not host or any(char in host for char in " @/\\"):
        return ""
    labels = host.split(".")
    if host in METADATA or labels[0] == "metadata" or labels[-1] in _PRIVATE_ENDINGS:
        return host
    return host if ".".join(labels[-2:]) in _PRIVATE_ENDINGS else ""


def is_metadata(host: str) -> bool:
    """What `private_host` gave hands out credentials of the machine."""
    return host in METADATA or host.startswith(("metadata.", "169.254.")) or host == "metadata"


def private_in_link(text: str, *, is_link: bool = True) -> tuple[tuple[str, ...], bool]:
    """The private hosts to which a field with a link or, with `is_link` false, with a host may lead, and whether these
    are all of them."""
    text = text.strip()
    if text[:5].lower() == "file:":
        return (), True  # a path
    hosts, complete = hosts_in(text)
    plain = unquote(text)
    if plain != text:
        more, all_of_them = hosts_in(plain)
        hosts, complete = {**hosts, **more}, complete and all_of_them
    found = dict.fromkeys(hosts)
    for each in (_SCHEME.sub("", text, count=1).lstrip("/\\"), text, *text.split("@")[1:MOST_LINKS]):
        start = _END.split(each, maxsplit=1)[0]
        found[start] = None
        found[start.rpartition("@")[2]] = None
    named = {told: None for host in found if len(host) <= LONGEST_HOST and (told := private_host(host))}
    if is_link:
        named |= dict.fromkeys(sorted({single for host in (*hosts, _named(text)) if (single := _single(host))}))
    return tuple(named), complete


def private_in_command(text: str, *, is_network: bool) -> tuple[tuple[str, ...], bool]:
    """The private hosts that a command names: in its links and, where it uses the network, in its words."""
    hosts, complete = hosts_in(text)
    named = {told: None for host in hosts if (told := private_host(host) or _single(host))}
    if is_network:
        for word in _WORD.findall(text):
            bare = _END.split(_SCHEME.sub("", word, count=1).lstrip("/\\"), maxsplit=1)[0].rpartition("@")[2]
            is_small = _NUMBER.fullmatch(bare) is not None and _whole(bare) < _LEAST_BARE
            if bare and not is_small and not word.startswith("-") and (told := private_host(bare)):
                named[told] = None
    return tuple(named), complete


def _named(text: str) -> str:
    found = re.match(r"[a-z][a-z0-9+.-]{0,30}:[/\\]{2,8}([^/?#\\\s]{1,300})", text, re.I)
    return found[1].rpartition("@")[2].lower() if found else ""


def _single(host: str) -> str:
    """A name without a dot, which only the network of this machine knows."""
    found = re.fullmatch(r"([a-z][a-z0-9_-]*)(?::\d*)?", host)
    return found[1] if found else ""


def _is_private(address: _Address) -> bool:
    return not address.is_global or address.is_multicast or getattr(address, "is_site_local", False)


def _addresses(host: str) -> list[_Address]:
    """The addresses that `host` may spell: as four numbers or fewer, in tens, eights or sixteens, or inside another.

    To one program 010 is ten, and to another it is eight.
    """
    if ":" in host:
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            return []
        return [_inside(address) or address]
    parts = host.split(".")
    if len(parts) > 4 or not all(_NUMBER.fullmatch(part) for part in parts):
        return []
    readings = [[_whole(part, octal=octal) for part in parts] for octal in (True, False)]
    return [found for numbers in readings if (found := _joined(numbers)) is not None]


def _joined(numbers: list[int]) -> ipaddress.IPv4Address | None:
    *first, last = numbers
    if any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        return None
    return ipaddress.IPv4Address(sum(number << 8 * (3 - at) for at, number in enumerate(first)) + last)


def _whole(text: str, *, octal: bool = False) -> int:
    if len(text) > 40:
        return 1 << 64
    if text[:2].lower() == "0x":
        return int(text[2:] or "0", 16)
    return int(text, 8) if octal and text[0] == "0" and set(text) <= set("01234567") else int(text)


def _inside(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The address of the fourth version that one of the sixth stands for."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    number = int(address)
    holds = number >> 32 == 0x64FF9B << 64 or number >> 48 == 0x64FF9B0001 << 40
    compatible = number >> 32 in (0, 0xFFFF0000) and number > 1
    isatap = number >> 32 & 0xFDFFFFFF == 0x5EFE
    return ipaddress.IPv4Address(number & 0xFFFFFFFF) if holds or compatible or isatap else None
