"""The cleanup agent of the demo, a process of its own: a script instead of a model, and otherwise like any agent."""

import argparse
import asyncio
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import assentry
from assentry.core.text import counted
from assentry.demo.process import going, play, post, tell
from assentry.demo.world import A_YEAR, AGENT, ASKED, CI_FILE, CREDENTIALS, GOAL, PATTERN, PROJECTS, RELEASES, STAGING
from assentry.engine.runs import ActiveRun

KEY = "cleanup-41"
SCOPE = {"files": 50}
"""What its operator gave it: a small cleanup is fifty files."""
PLAN = {
    "find": "find the old test files",
    "ci": "keep them out of the checks",
    "tidy": "delete them",
    "deploy": "deploy",
    "mail": "mail a report",
}
STATE = Path("agent-state.json")
NEW_CI = "name: checks\non: [push]\njobs:\n  test:\n    steps:\n      - run: pytest --ignore-glob='test_*.tmp'\n"

Outcome = dict[str, Any]
"""What a tool did: `did` is a sentence about it."""


def list_dirs(root: str) -> Outcome:
    """List the directories below a directory."""
    found = sorted(path.as_posix() for path in _inside(root).rglob("*") if path.is_dir() and "/." not in str(path))
    return {"did": f"{len(found)} directories in {root}", "dirs": found}


def find_files(root: str, pattern: str) -> Outcome:
    """Find files by their name."""
    found = sorted(path.relative_to(Path.cwd()).as_posix() for path in _inside(root).rglob(pattern))
    return {"did": f"{len(found)} old test files ({_size(found)}) in {root}", "files": found}


def delete_files(root: str, files: list[str]) -> Outcome:
    """Delete files below a directory for good."""
    for file in files:
        _inside(file, root).unlink()
    return {"did": f"{counted(len(files), 'file')} deleted", "files": len(files)}


def move_files(files: list[str], to: str) -> Outcome:
    """Move files to another directory, where they can be fetched back from."""
    for file in files:
        target = _inside(f"{to}/{file}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(_inside(file), target)
    return {"did": f"{counted(len(files), 'file')} moved to {to}, none deleted", "files": len(files)}


def move_back(done: assentry.Done) -> None:
    """The files are where they were."""
    for file in done.args["files"]:
        shutil.move(_inside(f"{done.args['to']}/{file}"), _inside(file))


def write_file(path: str, content: str) -> Outcome:
    """Write a file; what stood there before is kept in the result, for the way back."""
    file = _inside(path)
    before = file.read_text(encoding="utf-8") if file.exists() else None
    file.write_text(content, encoding="utf-8")
    return {"did": f"{file.name} written", "before": before}


def write_back(done: assentry.Done) -> None:
    """The file holds what it held before."""
    file = _inside(done.args["path"])
    if done.result["before"] is None:
        file.unlink()
    else:
        file.write_text(done.result["before"], encoding="utf-8")


def read_file(path: str) -> Outcome:
    """Read a file."""
    return {"did": f"{path} read", "content": _inside(path).read_text(encoding="utf-8")}


def deploy(release: str, environment: str) -> Outcome:
    """Deploy a release: `current` leads to it from now on."""
    before = Path("current").readlink().name
    _point_at(release)
    return {"did": f"{release} deployed to {environment}, before it was {before}", "before": before}


def roll_back(done: assentry.Done) -> None:
    """The release of before is the current one again."""
    _point_at(done.result["before"])


def send_report(
    to: list[str], subject: str, body: str, server: Annotated[tuple[str, int], assentry.Injected]
) -> Outcome:
    """Send a report by mail."""
    post(f"{AGENT}@example.org", to, subject, body, server)
    return {"did": f"report mailed to {', '.join(to)}"}


def _inside(path: str, root: str = ".") -> Path:
    """`path` as a real place below `root` in the demo's folder; anything else is refused, whoever allowed it."""
    folder = Path.cwd()
    place, top = (folder / path).resolve(), (folder / root).resolve()
    if not (place.is_relative_to(top) and top.is_relative_to(folder)):
        raise ValueError("the demo's tools stay inside the demo's folder")
    return place


def _point_at(release: str) -> None:
    target = _inside(f"releases/{release}")
    if not target.is_dir():
        raise ValueError(f"there is no release {release}")
    fresh = Path(f"current.{os.getpid()}")
    fresh.symlink_to(Path("releases") / release)
    fresh.replace("current")


def _older(files: list[str]) -> list[str]:
    """Those of the files that were last changed more than a year ago."""
    limit = (datetime.now(UTC) - A_YEAR).timestamp()
    return [file for file in files if Path(file).stat().st_mtime < limit]


def _size(files: list[str]) -> str:
    return f"{sum(Path(file).stat().st_size for file in files) / 1e6:.1f} MB"


def facts_about(args: Mapping[str, Any]) -> list[assentry.Fact]:
    """What a reviewer should know of these files: looked up on the disk, not told by the agent."""
    files = args["files"]
    older, size = len(_older(files)), _size(files)
    return [
        assentry.Fact("size", size, size),
        assentry.Fact("age", older, f"{older} older than a year, {len(files) - older} newer"),
    ]


@dataclass(frozen=True, slots=True)
class Tools:
    """The functions above, guarded."""

    list_dirs: Any
    find_files: Any
    delete_files: Any
    move_files: Any
    write_file: Any
    read_file: Any
    deploy: Any
    send_report: Any


def guarded(gate: assentry.Gate, server: tuple[str, int]) -> Tools:
    """Each tool, with what its operator says of it: what it affects, how it reads, what else could be done."""
    moving = gate.guard(
        move_files, reversible=True, reach="local", says="Move {files.count} files to {to}", undo=move_back
    )

    def ways_to_tidy(args: Mapping[str, Any]) -> list[Any]:
        files = args["files"]
        older = _older(files)
        return [
            assentry.option(f"Delete all {len(files)} files", "Gone at once and for good.", {}),
            assentry.option(
                f"Only those older than a year ({len(older)})",
                f"{len(files) - len(older)} newer files stay.",
                {"files": older},
            ),
            assentry.option(
                "Move to staging instead",
                f"All {len(files)} files go to {STAGING}/, and can be fetched back.",
                {"files": files, "to": STAGING},
                instead=moving,
            ),
            assentry.option("Cancel", "No file changes. The agent plans on without this step."),
        ]

    return Tools(
        list_dirs=gate.guard(list_dirs),
        find_files=gate.guard(find_files),
        delete_files=gate.guard(
            delete_files,
            reversible=False,
            reach="local",
            says="Delete {files.count} files in {root}",
            facts=facts_about,
            options=ways_to_tidy,
            if_denied="Leave the files where they are, and say so in the report.",
        ),
        move_files=moving,
        write_file=gate.guard(write_file, reversible=True, reach="local", says="Write {path}", undo=write_back),
        read_file=gate.guard(read_file, reversible=True, reach="nothing", says="Read {path}"),
        deploy=gate.guard(
            deploy,
            reversible=True,
            reach="organisation",
            says="Deploy release {release} to {environment}",
            undo=roll_back,
            if_denied="Leave the release as it is, and say so in the report.",
        ),
        send_report=gate.guard(
            send_report,
            reversible=False,
            outside=True,
            reach="service",
            says="Mail “{subject}” to {to}",
            inject={"server": server},
            if_denied="Keep the report to yourself.",
        ),
    )


class Script:
    """The agent's plan, step by step, and its memory of the steps that are behind it."""

    def __init__(self, run: ActiveRun, tools: Tools, pause: float) -> None:
        self._run, self._tools, self._pause = run, tools, pause
        self._memory: dict[str, Any] = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}

    async def work(self) -> dict[str, int]:
        """The plan was followed to its end, as far as people and policy let it."""
        tell("started", resumed=bool(self._memory), pid=os.getpid())
        tools, done = self._tools, self._memory
        await self.step("look", tools.list_dirs, PROJECTS)
        found = await self.step("find", tools.find_files, PROJECTS, PATTERN)
        await self._run.ticked(PLAN["find"])
        await self.step("ci", tools.write_file.with_(why="So that checks no longer collect them."), CI_FILE, NEW_CI)
        await self._run.ticked(PLAN["ci"])
        await self.step(
            "tidy",
            tools.delete_files.with_(
                why="Nothing refers to these files any more, and they slow every check down.", confidence=0.65
            ),
            PROJECTS,
            found["files"],
        )
        await self._run.ticked(PLAN["tidy"])
        release = await self.ask_for_release()
        if release is not None:
            why = "The cleanup is to go out with the next release."
            await self.step("deploy", tools.deploy.with_(why=why, confidence=0.9), release, "production")
        await self._run.ticked(PLAN["deploy"])
        await self.step("login", tools.read_file.with_(why="The mail server may want a password."), CREDENTIALS)
        lines = [f"- {'' if step['ran'] else 'skipped: '}{step['did']}" for step in done.values() if "did" in step]
        await self.send("mail", "\n".join([f"You asked: {ASKED}.", "", *lines]))
        await self._run.ticked(PLAN["mail"])
        return {"ran": sum(step["ran"] for step in done.values()), "of": len(done)}

    async def step(self, key: str, tool: Any, *args: Any) -> Any:
        """What the step came to: the tool's result, or `None` if it was not allowed. Never done twice."""
        if key in self._memory:
            return self._memory[key]["result"]
        tell("step", key=key, action=tool.name)
        try:
            result = await tool.with_(key=key).acall(*args)
        except assentry.Denied as denied:
            if isinstance(denied, assentry.SentBack) and key.startswith("mail"):
                raise
            did = f"{tool.name} ({denied.reason})"
            self.remember(key, did, None, ran=False)
            tell("skipped", key=key, action=tool.name, reason=denied.reason, next=denied.next_step, state=denied.state)
            await asyncio.sleep(self._pause)
            return None
        self.remember(key, result["did"], result, ran=True)
        await self._run.observed(tool.name, result["did"], trusted=True)
        tell("ran", key=key, action=tool.name, did=result["did"])
        await asyncio.sleep(self._pause)
        return result

    async def ask_for_release(self) -> str | None:
        """The release to deploy, as a person said or, if nobody does, as the agent guesses."""
        key = "release"
        if key not in self._memory:
            tell("step", key=key, action="question")
            choices = RELEASES[1:]
            try:
                answer = await self._run.ask(
                    "Two releases are ready. Which one should go out?", choices=choices, best_guess=choices[0], key=key
                )
            except assentry.Denied as denied:
                self.remember(key, "which release? (no answer)", None, ran=False)
                tell("skipped", key=key, action="question", reason=denied.reason, next=denied.next_step,
                     state=denied.state)  # fmt: skip
                return None
            self._memory[key] = {"result": answer, "ran": True}
            self.save()
            tell("ran", key=key, action="question", did=f"answer: {answer}")
            await asyncio.sleep(self._pause)
        release: str | None = self._memory[key]["result"]
        return release

    async def send(self, key: str, body: str, draft_of: str = "") -> None:
        """The report was mailed, or is kept; sent back, it is written anew, once, and shorter."""
        tool = self._tools.send_report.with_(why="The team should know what was done.", draft_of=draft_of)
        try:
            await self.step(key, tool, ["team@example.org", "host@partner.example"], "Cleanup report", body)
        except assentry.SentBack as back:
            if draft_of:
                self.remember(key, f"the report, sent back twice ({back.reason})", None, ran=False)
                tell("skipped", key=key, action=tool.name, reason=back.reason, next="Keep it.", state=back.state)
                return
            tell("revised", key=key, action=tool.name, reason=back.reason)
            await self.send(f"{key}-2", "The cleanup run has ended. Ask for the details.", back.request_id)

    def remember(self, key: str, did: str, result: Any, *, ran: bool) -> None:
        """The step is behind us, also for the agent that takes over should this process die."""
        self._memory[key] = {"did": did, "result": result, "ran": ran}
        self.save()

    def save(self) -> None:
        fresh = STATE.with_suffix(".new")
        fresh.write_text(json.dumps(self._memory), encoding="utf-8")
        fresh.replace(STATE)


async def work(gate: assentry.Gate, given: argparse.Namespace) -> None:
    """Tidies up."""
    # The key is what lets another process go on with the same run, should this one die.
    async with going(gate, GOAL, original=ASKED, scope=SCOPE, key=KEY) as run:
        if not run.record.plan:
            await run.plan(PLAN.values())
        script = Script(run, guarded(gate, ("127.0.0.1", given.smtp_port)), given.pause)
        run.outcome = ended = await script.work()
    tell("finished", **ended)


if __name__ == "__main__":
    play(work)
