"""What is said before a command's name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Given:
    """Where to work, as far as the command line says; the environment and `assentry.toml` say the rest."""

    database: str | None = None
    workspace: str | None = None
    home: str | None = None
    server: str | None = None
