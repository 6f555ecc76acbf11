"""Places where it is set what programs do, and addresses that are private: nothing reaches them unasked."""

import pytest

from assentry.adapters.claude_code import errand_in
from assentry.core import place_text
from assentry.core.action import Action, Declaration, Reach, Risk
from assentry.core.classify import classify, profile
from assentry.core.declared import Said
from assentry.core.host_text import private_host
from assentry.core.judge import judge
from assentry.core.policy import Policy
from assentry.core.policy_file import load_policy
from assentry.core.verdict import GateKind

EDITORS = {
    "Edit": lambda path: {"file_path": path, "old_string": "a", "new_string": "b"},
    "MultiEdit": lambda path: {"file_path": path, "edits": [{"old_string": "a", "new_string": "b"}]},
    "Write": lambda path: {"file_path": path, "content": "x"},
    "NotebookEdit": lambda path: {"notebook_path": path, "new_source": "x"},
    "mcp__files__write_file": lambda path: {"path": path, "content": "x"},
    "mcp__files__move_file": lambda path: {"source": "notes.txt", "destination": path},
    "mcp__files__edit_several": lambda path: {"paths": ["notes.txt", path]},
}
PLACES = (
    "/w/.claude/settings.json", ".claude/settings.local.json", "/home/u/.claude.json", ".mcp.json", ".cursor/mcp.json",
    ".vscode/settings.json", ".vscode/tasks.json", "CLAUDE.md", "sub/AGENTS.md", ".git/config", ".git/hooks/pre-commit",
    "/home/u/.gitconfig", ".gitmodules", ".husky/pre-push", ".pre-commit-config.yaml", "/home/u/.bashrc",
    "/home/u/.bash_profile", "/home/u/.profile", "/home/u/.zshenv", "/home/u/.zshrc", "/home/u/.config/fish/config.fish",
    "/home/u/.login", ".envrc", "/home/u/.ssh/config", "/etc/hosts", "/etc/cron.d/x", "/var/spool/cron/u",
    "/home/u/.config/systemd/user/x.service", "/Users/u/Library/LaunchAgents/x.plist",
    "/home/u/.config/autostart/x.desktop", "/usr/local/bin/git", "assentry.db", "assentry.yaml",
)  # fmt: skip
SPELLINGS = (
    "/w/.CLAUDE/settings.json", "./.claude/settings.json", "/w/src/../.claude/settings.json", "~/.BASHRC",
    "$HOME/.bashrc", "/w/.cl%61ude/settings.json", "/w/%2eclaude/x", "/w//.claude//x", "/w/.claude./x", "/w/.claude /x",
    "C:\\w\\.claude\\settings.json", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", "\uff0egit/config",
    "/w/.cla\u200bude/x", "file:///etc/hosts", "../../../etc/hosts", "~/../../etc/hosts", "/private/etc/hosts",
    "/w/AGENTS.md ", "\\\\?\\C:\\w\\.git\\config",
)  # fmt: skip
ORDINARY = (
    "/w/a.py", "src/settings.json", ".github/workflows/x.yml", ".gitignore", ".vscode/x.code-snippets", "../lib/foo.py",
    "/root/work/a.py", "/usr/src/app/main.c", "/dev/null", "/var/www/index.html", "docs/claude-code.md", "/tmp/x",
    "system/users.py", "library/books.csv", "bin/run.py", "etc/notes.txt", ".claudette/x",
)  # fmt: skip


def _gate(tool: str, args: dict[str, object], policy: Policy | None = None, *, trusted: bool = True) -> GateKind:
    errand = errand_in({"tool_name": tool, "tool_input": args, "session_id": "s"})
    known = profile(errand.action, errand.description, said=Said(trusted=trusted))
    action = Action(errand.action, errand.args, agent="claude-code", trusted=trusted)
    return judge(policy or Policy(), action, classify(known, errand.args)).gate


def _waits(gate: GateKind) -> bool:
    return gate in (GateKind.HARD, GateKind.MANUAL)


@pytest.mark.parametrize("tool", EDITORS)
def test_no_tool_changes_what_programs_do_unasked(tool: str) -> None:
    allows = load_policy("rules: [{name: all, actions: ['*'], gate: run}]")
    ran = [
        place
        for place in (*PLACES, *SPELLINGS)
        for policy in (Policy(), allows)
        if not _waits(_gate(tool, EDITORS[tool](place), policy))
    ]
    assert ran == []


@pytest.mark.parametrize("tool", ["Edit", "Write", "NotebookEdit"])
def test_ordinary_files_do_not_begin_to_wait(tool: str) -> None:
    assert _gate("Edit", EDITORS["Edit"]("/w/a.py")) is GateKind.WATCH
    want = _gate(tool, EDITORS[tool]("/w/a.py"))
    assert [place for place in ORDINARY if _gate(tool, EDITORS[tool](place)) is not want] == []


@pytest.mark.parametrize("place", ["/w/a.py", "/etc/hosts", ".claude/settings.json", "CLAUDE.md", ".husky/pre-commit"])
def test_reading_does_not_begin_to_wait(place: str) -> None:
    assert _gate("Read", {"file_path": place}) is GateKind.RUN
    assert _gate("Bash", {"command": f"cat {place}"}) is GateKind.RUN


COMMANDS = (
    "echo x > {}", "echo x >> {}", "echo x | tee {}", "cp a {}", "sed -i s/a/b/ {}", "dd if=a of={}", "cat <<E > {}\nx\nE",
    "python -c 'open(\"{}\", \"w\")'", "ln -sf a {}", "D={}; cp a $D", "bash -c 'cp a {}'", "mkdir x && mv a {}",
)  # fmt: skip
HIDDEN = (
    "cp a .cl'au'de/settings.json", "cp a .clau\\de/settings.json", "cp a .cl*/settings.json", "cp a ~/.ba{sh,zsh}rc",
    "cp a .cl${x}aude/x", "cp a .cl$(echo)aude/x", 'cp a "$HOME"/.bashrc', "cp a /e*/hosts", "cp a /et?/hosts",
    "cd .claude && cp ../a settings.json", "git config core.hooksPath x", "crontab a", "git -C x config alias.y '!z'",
    "systemctl enable x", "claude mcp add x y", "assentry policy apply x", "python -m assentry approve X", "cp a $'\\x2egit'/config",
)  # fmt: skip


def test_a_rule_that_lets_commands_run_is_no_way_to_such_places() -> None:
    allows = load_policy("rules: [{name: all, actions: [run_command], gate: run}]")
    commands = [text.format(place) for text in COMMANDS for place in PLACES if " " not in place] + [*HIDDEN]
    assert [text for text in commands if not _waits(_gate("Bash", {"command": text}, allows))] == []
    fine = (
        "npm test", "npm test > /dev/null 2>&1", "/usr/bin/python3 x.py", "cp a b", "git add .gitignore", "pytest -k local",
        "pip install assentry && ls", "git config --get user.name", "systemctl status x", "curl -m 30 https://example.com",
    )  # fmt: skip
    assert [text for text in fine if _gate("Bash", {"command": text}, allows) is not GateKind.RUN] == []


HOSTS = {
    "169.254.169.254": "169.254.169.254", "10.0.0.5": "10.0.0.5", "localhost": "localhost", "LOCALHOST.": "localhost",
    "2852039166": "169.254.169.254", "[::ffff:10.0.0.1]": "10.0.0.1", "metadata.google.internal": "metadata.google.internal",
    "127.1": "127.0.0.1", "0x7f.1": "127.0.0.1", "0x7f000001": "127.0.0.1", "0177.0.0.1": "127.0.0.1",
    "010.0.0.5": "10.0.0.5", "[::1]": "::1", "[::]": "::", "0": "0.0.0.0", "[64:ff9b::10.0.0.1]": "10.0.0.1",
    "[2002:a00:1::]": "10.0.0.1", "[::10.0.0.1]": "10.0.0.1", "[::ffff:0:10.0.0.1]": "10.0.0.1", "[fe80::1%25eth0]": "fe80::1",
    "[fd00:ec2::254]": "fd00:ec2::254", "[fec0::1]": "fec0::1", "100.64.0.1": "100.64.0.1", "192.168.1.1": "192.168.1.1",
    "172.16.0.1": "172.16.0.1", "wiki.internal": "wiki.internal", "nas.local": "nas.local", "127.0.0.1.nip.io": "127.0.0.1.nip.io",
    "\uff11\uff12\uff17.0.0.1": "127.0.0.1", "127\u30020\u30020\u30021": "127.0.0.1", "%31%32%37.0.0.1": "127.0.0.1",
    "lo\u200bcalhost": "localhost", "224.0.0.1": "224.0.0.1", "router.lan:80": "router.lan",
}  # fmt: skip
PUBLIC = ("example.com", "8.8.8.8", "134744072", "[2606:4700::1111]", "api.github.com:443", "localhost.com", "x.localxyz",
          "10.0.0.5.example.com", "mylocal", "")  # fmt: skip


def test_every_spelling_of_a_private_host_is_one() -> None:
    assert {spelt: private_host(spelt) for spelt in HOSTS} == HOSTS
    assert [host for host in PUBLIC if private_host(host)] == []


LINKS = (
    *(f"http://{host}/x" for host in HOSTS), "http:10.0.0.5", "http:/\\10.0.0.5", "//10.0.0.5/x", "10.0.0.5/x", "localhost:3000",
    "http://u:p@10.0.0.1", "http://example.com@10.0.0.1", "http://10.0.0.1\\@example.com", "http://10.0.0.1%2f@example.com",
    "http://1.1.1.1 &@10.0.0.1# @3.3.3.3/", "jar:http://10.0.0.1!/", "gopher://10.0.0.1:70/", "https://intranet/x",
    "https://example.com/?u=http://10.0.0.5/", " http://10.0.0.5", "HTTP://10.0.0.5", "ws://10.0.0.5",
)  # fmt: skip
FINE = (
    "https://example.com/", "https://docs.python.org/3/library/ipaddress.html#10.0.0.1", "https://api.github.com:443/x?y=z",
    "http://[2606:4700::1111]/", "example.com/localhost", "https://example.com/http", "www.example.com",
)  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "name"), [("WebFetch", "url"), ("mcp__web__get_page", "url"), ("mcp__web__get_page", "target"), ("mcp__web__navigate", "uri")]
)  # fmt: skip
def test_no_tool_reaches_a_private_address_unasked(tool: str, name: str) -> None:
    allows = load_policy("rules: [{name: all, actions: ['*'], gate: run}]")
    links = (
        LINKS
        if name != "target"
        else [link for link in LINKS if link.lower().startswith(("http:", "ws:")) and " " not in link]
    )
    said = [{name: link, "prompt": "what is there"} for link in links] + [
        {"request": {name: links[1]}},
        {f"{name}s": [links[1]]},
    ]
    ran = [args for args in said for policy in (Policy(), allows) if not _waits(_gate(tool, args, policy))]
    assert ran == []
    for link in FINE:
        assert _gate("WebFetch", {"url": link, "prompt": "compare http://localhost"}) is GateKind.RUN


def test_a_service_that_hands_out_credentials_is_critical() -> None:
    known = profile("fetch_url")
    for host in ("169.254.169.254", "metadata.google.internal", "0xa9fea9fe", "[fd00:ec2::254]", "100.100.100.200"):
        assert classify(known, {"url": f"http://{host}/latest"}).risk is Risk.CRITICAL


def test_what_is_written_and_leads_nowhere_does_not_wait() -> None:
    for text in ("see http://localhost:3000", "http://10.0.0.5/"):
        assert _gate("Edit", {"file_path": "a.md", "old_string": "a", "new_string": text}) is GateKind.WATCH


@pytest.mark.parametrize("spelt", ["http://{}/", "{}", "{}:8080/x", "http://u@{}:1/"])
def test_commands_with_private_addresses_wait_although_a_rule_lets_commands_run(spelt: str) -> None:
    allows = load_policy("rules: [{name: all, actions: [run_command], gate: run}]")
    hosts = ("169.254.169.254", "10.0.0.5", "localhost", "2852039166", "127.1", "0x7f000001", "wiki.internal", "[::1]")
    commands = [f"{program} {spelt.format(host)}" for program in ("curl -s", "wget -qO-") for host in hosts]
    assert [text for text in commands if not _waits(_gate("Bash", {"command": text}, allows))] == []


def test_only_a_rule_that_reads_the_fact_lets_it_run() -> None:
    args = {"url": "http://wiki.internal/status"}

    def gate(rule: str, url: str = "") -> GateKind:
        rules = f"rules: [{{name: wiki, actions: [fetch_status], {rule} gate: run}}]"
        return _gate("fetch_status", {**args, **({"url": url} if url else {})}, load_policy(rules))

    named = "when: 'facts.private == [\"wiki.internal\"]',"
    assert gate(named) is GateKind.RUN
    assert gate('when: \'facts["private"] == ["wiki.internal"]\',') is GateKind.RUN
    assert gate(named, "http://10.0.0.5/") is GateKind.HARD
    assert gate(named, "http://wiki.internal@10.0.0.5/") is GateKind.HARD
    assert gate("") is GateKind.HARD
    assert gate("when: 'args.url.contains(\"wiki\")',") is GateKind.HARD
    assert gate("when: 'facts.links.size() > 0',") is GateKind.HARD


def test_a_strangers_word_and_the_operators_declaration_do_not_change_that() -> None:
    assert _waits(_gate("Write", EDITORS["Write"]("/etc/hosts"), trusted=False))
    known = profile("fetch_url", said=Said(code=Declaration(True, Reach.NOTHING, False, False, Risk.SAFE)))
    args = {"url": "http://10.0.0.5"}
    assert judge(Policy(), Action("fetch_url", args), classify(known, args)).gate is GateKind.HARD


def test_the_card_says_what_the_place_is() -> None:
    (fact,) = [
        each for each in classify(profile("edit_file"), {"path": ".git/config"}).facts if each.name == "protected"
    ]
    assert (fact.hurts, "sets what programs do" in str(place_text.path_marks(".git/config"))) == (True, True)
    assert fact.says == "where it is set what programs or the system do: .git/config"
    assert place_text.SETS in place_text.ALARMING


def test_a_path_too_long_to_be_read_counts_as_such_a_place() -> None:
    allows = load_policy("rules: [{name: all, actions: ['*'], gate: run}]")
    for size in (300, 30_000):
        path = "./" * size + ".bashrc" + "/." * size
        assert _waits(_gate("Write", EDITORS["Write"](path), allows))
        assert _waits(_gate("WebFetch", {"url": "http://u" + "u" * 2 * size + "@10.0.0.5/" + "x" * 2 * size}, allows))
