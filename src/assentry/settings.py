"""Where things are: a small file and the environment become one frozen `Settings`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from assentry.errors import SettingsError

FILE = "assentry.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """Each is a key of `assentry.toml` and, in capitals with `ASSENTRY_` before it, a variable of the environment."""

    database: str = "assentry.db"
    """A path for SQLite, or `postgresql://…`."""
    workspace: str = "default"
    agent: str = "agent"
    policy: str = ""
    """A policy file to begin with where the store has none; later `assentry policy apply` changes it."""
    server: str = ""
    """A server that commands talk to instead of a database, once `assentry login` let somebody in."""
    home: str = ""
    """Where keys and checkpoints are kept, outside the database; empty means the user's data directory."""
    sso_issuer: str = ""
    """The OpenID Connect provider with which people log in, as it calls itself: `https://…`."""
    sso_client_id: str = ""
    """What the provider calls this server."""
    sso_client_secret_file: str = ""
    """A file that holds the secret the provider gave us; the secret itself is in no setting."""
    sso_claim: str = "email"
    """The claim that names a person by what the policy has as their `email:`."""

    @property
    def is_postgres(self) -> bool:
        return self.database.startswith(("postgresql://", "postgres://"))


def load(given: Mapping[str, str | None] | None = None, *, directory: Path | None = None) -> Settings:
    """The settings: what was given, over the environment, over `assentry.toml`, over the defaults."""
    settings = _from_file((directory or Path.cwd()) / FILE, Settings())
    known = [field.name for field in fields(Settings)]
    from_environment = {name: os.environ[key] for name in known if (key := f"ASSENTRY_{name.upper()}") in os.environ}
    chosen = {name: value for name, value in (given or {}).items() if value is not None}
    settings = replace(settings, **{**from_environment, **chosen})
    if not settings.workspace or any(not (char.isalnum() or char in "-_.") for char in settings.workspace):
        raise SettingsError("workspace must be letters, digits, dashes, dots or underscores; set ASSENTRY_WORKSPACE")
    if "://" in settings.database and not settings.is_postgres:
        kind = settings.database.partition("://")[0]
        raise SettingsError(f"a database of kind {kind!r} is not supported; use a file path or postgresql://…")
    return settings


def _from_file(path: Path, settings: Settings) -> Settings:
    if not path.is_file():
        return settings
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as problem:
        raise SettingsError(f"{path.name} cannot be read: {problem}; mend it or move it away") from None
    known = {field.name for field in fields(Settings)}
    for name, value in document.items():
        if name not in known:
            raise SettingsError(f"{path.name}: unknown setting {name!r}; there are {', '.join(sorted(known))}")
        if not isinstance(value, str):
            raise SettingsError(f"{path.name}: {name} must be text in quotes")
    return replace(settings, **document)
