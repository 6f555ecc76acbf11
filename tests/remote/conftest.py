"""The server and its agents, for every test here."""

from tests.remote.place import place

__all__ = ["place"]
