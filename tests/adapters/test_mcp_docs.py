"""docs/mcp.md is true: its commands and files are read as it says. Its Python is run with that of the other pages."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from assentry.adapters.mcp_proxy.held import Held
from assentry.adapters.mcp_proxy.servers import listed
from assentry.cli import mcp
from assentry.cli.app import app, run

PAGE = (Path(__file__).parent.parent.parent / "docs" / "mcp.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def read(words: list[str]) -> dict[str, object]:
    """What the command line makes of these words; nothing is started."""
    return dict(get_command(mcp.app).make_context("mcp", words[words.index("mcp") + 1 :]).params)


def test_the_commands_are_read_as_the_page_says() -> None:
    by_address, login, several = [read(shlex.split(block)[1:]) for block in blocks("sh")]
    assert by_address["url"] == "https://tools.example.com/mcp"
    assert by_address["header"] == ["Authorization: Bearer ${TOOLS_TOKEN}"]
    assert login["login"] is True
    assert several["config"] == Path("servers.json")
    assert all(f"| `{held.value}`" in PAGE for held in Held)


def test_the_files_are_read_as_the_page_says(tmp_path: Path) -> None:
    client, several = blocks("json")
    entry = json.loads(client)["mcpServers"]["files"]
    words = read(entry["args"])
    assert entry["command"] == "assentry"
    assert words["name"] == "files"
    assert next(iter(words["command"])) == "npx"  # type: ignore[call-overload]
    file = tmp_path / "servers.json"
    file.write_text(several)
    servers = {server.name: server for server in listed(file)}
    assert {name: server.trusted for name, server in servers.items()} == {"files": False, "crm": False, "clock": True}
    assert servers["crm"].headers == {"Authorization": "Bearer none"}


def test_a_command_line_that_names_no_server_or_two_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ([], ["--url", "https://x", "--", "y"], ["--header", "A: b", "--", "y"], ["--held", "elicit", "--", "y"])
    for words in wrong:
        with pytest.raises(SystemExit):
            app(["--database", str(tmp_path / "a.db"), "mcp", *words])
        told = re.sub(r"[^\w-]+", " ", capsys.readouterr().err)
        assert any(each in told for each in ("name one", "headers go with", "no card to open without a server"))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--client-id", "x", "--url", "https://x.io"], "use it with --login"),
        (["--login", "--logout", "--url", "https://x.io"], "say one of --login and --logout"),
        (["--held", "ticket", "--wait", "3", "--", "y"], "leave out --wait"),
        (["ls", "-la"], "No such option: -l; the server's command goes after --, as in: assentry mcp -- ls …"),
        (["--config", "nowhere.json"], "there is no file nowhere.json"),
    ],
)
def test_a_command_line_that_contradicts_itself_says_how(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--database", "a.db", "mcp", *words]) != 0
    assert complaint in capsys.readouterr().err


def test_an_option_that_nobody_knows_is_only_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--database", str(tmp_path / "a.db"), "mcp", "--bogus", "--", "ls"]) == 2
    assert "goes after" not in capsys.readouterr().err
