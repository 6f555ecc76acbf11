"""Addresses that something secret may go to."""

from urllib.parse import urlsplit

_LOCAL = ("127.0.0.1", "localhost", "::1")


def is_local(url: str) -> bool:
    """It is on this machine."""
    return urlsplit(url).hostname in _LOCAL


def is_safe(url: str, *, local: bool = True) -> bool:
    """Nobody on the way can read or change what goes there, and a browser can open it.

    What is on this machine may be reached only where `local` says so: nobody elsewhere sends us there.
    """
    try:
        parts = urlsplit(url)
        here = is_local(url)
        plain = url.isascii() and url.isprintable() and " " not in url and "@" not in parts.netloc
        return (
            plain
            and bool(parts.hostname)
            and parts.port != 0
            and (local if here else parts.scheme == "https")
            and parts.scheme in ("http", "https")
        )
    except ValueError:
        return False
