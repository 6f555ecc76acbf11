"""SQL lives in files; here it is read by name.

`queries.sql` of each back end holds statements, each under a line `-- name: what_it_is`. Files named
`0001_what.sql` are migrations.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"^(\d{4})_(\w+)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, forward only."""

    number: int
    name: str
    sql: str


@cache
def statements(backend: str) -> dict[str, str]:
    """Every named statement of `backend`."""
    text = (files("assentry.stores") / "sql" / backend / "queries.sql").read_text(encoding="utf-8")
    pieces = _NAME.split(text)[1:]
    return {name: _tight(body) for name, body in zip(pieces[::2], pieces[1::2], strict=True)}


@cache
def migrations(backend: str) -> tuple[Migration, ...]:
    """All migrations of `backend`, in order."""
    found = [
        Migration(int(match[1]), match[2], file.read_text(encoding="utf-8"))
        for file in (files("assentry.stores") / "sql" / backend).iterdir()
        if (match := _MIGRATION.match(file.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.number))


def _tight(sql: str) -> str:
    """The statement on one line, without comments, as drivers cache it by its text."""
    lines = (line.split("-- ")[0].strip() for line in sql.splitlines())
    return " ".join(line for line in lines if line).removesuffix(";")
