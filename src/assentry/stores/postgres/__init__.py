"""The store for more than one machine, through psycopg: guarded statements in groups, row locks, notifications."""

from assentry.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
