"""Which migrations a database still needs, and the one sentence for each reason not to touch it."""

from collections.abc import Collection, Sequence

from assentry.errors import NewerDatabase
from assentry.stores.statements import Migration


def missing(applied: Collection[int], known: Sequence[Migration], address: str) -> tuple[Migration, ...]:
    """The migrations that `address` lacks, in order; refuses a database that knows more than we do."""
    newest = max((migration.number for migration in known), default=0)
    latest = max(applied, default=0)
    if latest > newest:
        raise NewerDatabase(
            f"{address} was written by a newer version of Assentry (schema {latest}, this version knows "
            f"{newest}); upgrade Assentry, or open the backup made before the upgrade"
        )
    return tuple(migration for migration in known if migration.number not in applied)
