"""The server and its agents, for every test here."""

from tests.remote.place import database, place

__all__ = ["database", "place"]
