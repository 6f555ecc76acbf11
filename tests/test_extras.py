"""Extras: what is said where one is missing, which there are, and the oldest versions that are tried."""

import tomllib
from pathlib import Path

import pytest

from assentry.errors import GuardError, MissingExtra, SettingsError
from assentry.extras import needs
from tests import oldest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_a_package_that_is_missing_is_told_as_its_extra() -> None:
    with pytest.raises(MissingExtra) as caught, needs("server", "assentry serve"):
        import not_installed_anywhere  # noqa: F401
    assert str(caught.value) == "assentry serve needs the server extra: pip install 'assentry[server]'"
    assert (caught.value.extra, caught.value.name) == ("server", "not_installed_anywhere")
    assert isinstance(caught.value, SettingsError)
    assert isinstance(caught.value, ImportError)


def test_a_version_that_lacks_what_is_imported_is_told_as_its_extra() -> None:
    with pytest.raises(MissingExtra), needs("tui", "assentry inbox"):
        from json import not_in_this_version  # noqa: F401


def test_the_extra_of_whoever_asked_first_is_told() -> None:
    with pytest.raises(MissingExtra) as caught, needs("langchain", "agents"), needs("langgraph", "graphs"):
        import not_installed_anywhere  # noqa: F401
    assert caught.value.extra == "langchain"


def test_what_is_wrong_with_our_own_modules_is_not_blamed_on_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"assentry\.nowhere"), needs("server", "assentry serve"):
        import assentry.nowhere  # type: ignore[import-not-found]  # noqa: F401
    with pytest.raises(GuardError), needs("server", "assentry serve"):
        raise GuardError("as it is")


def test_the_page_lists_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for extra in PROJECT["optional-dependencies"]:
        assert f"\n| `{extra}` |" in page, f"docs/install.md says nothing of the extra {extra}"


def test_all_names_every_extra_but_those_that_the_page_leaves_out() -> None:
    [named] = PROJECT["optional-dependencies"]["all"]
    extras = set(named.removeprefix("assentry[").removesuffix("]").split(","))
    assert extras == PROJECT["optional-dependencies"].keys() - {"models", "demo", "dev", "all"}


def test_every_dependency_has_a_lower_bound_that_is_tried_and_a_version_that_is_known() -> None:
    extras = [each for each in PROJECT["optional-dependencies"] if each not in ("dev", "models", "telemetry")]
    pins = oldest.oldest(extras)
    assert {"apsw==3.51.3", "argon2-cffi==23.1"} <= set(pins)
    known = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert {oldest.plain(each) for each in pins} <= {oldest.plain(each) for each in known}
    assert len(oldest.rest(pins, ["starlette"])) < len(known)


def test_a_dependency_without_a_lower_bound_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldest, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["rich"]\n[project.optional-dependencies]\n')
    with pytest.raises(SystemExit, match="no lower bound"):
        oldest.oldest([])
