"""The store in one file, through APSW: one writer thread, readers beside it, a wake file for other processes."""

from assentry.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
