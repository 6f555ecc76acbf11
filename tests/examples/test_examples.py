"""The examples, played for real: alone from start to end, and killed while parked and gone on with elsewhere.

What each of them does is counted in its ledger: a line for every effect, so that one that happens twice, or never,
shows.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assentry.core.briefing import Briefing
from assentry.core.request import State
from assentry.core.run import RunState
from examples.playground import Says
from tests.examples.theatre import EXAMPLES, PAGES, Theatre, blocks, postbox, theatre

pytestmark = pytest.mark.proof


def better(args: dict[str, Any]) -> dict[str, Any]:
    args["show"]["4"]["label"] = "refund"
    return args


LABELS = ("billing", "technical", "billing", "spam", "technical", "technical", "refund", "refund", "praise", "billing", "technical", "refund")  # fmt: skip
LABELLED = [f"message {number}: {label}" for number, label in enumerate(LABELS, 1)]
LABELLED.insert(4, "message 4: refund")
PAID = [
    "paid 80.00 EUR to Paper & Co for R-101",
    "paid 140.00 EUR to Cleaning for R-102",
    "paid 95.00 EUR to Phone for R-103",
    "paid 240.00 EUR to Travel for R-104",
    "paid 2400.00 EUR to Machines for R-105",
]
MAILED = ["case opened for Ms Okafor", "mailed okafor@example.com: Your parcel"]
RELEASED = [
    "built shop:4f2a",
    "migrated orders: create index on orders (customer)",
    "deployed shop:4f2a to production",
]
DELETED = ["announced: backups in daily go if they are older than 90 days"]
DELETED += [f"deleted daily/{number}.tar" for number in range(5, 10)]


@dataclass(frozen=True)
class Example:
    """What comes of an example: of its own script, and of what people decide in these tests."""

    name: str
    scripted: list[str]
    decisions: list[Says]
    ledger: list[str]
    outcome: Any


PLAYED = [
    Example(
        "infrastructure",
        [
            "ticket: 50 instances seem unused",
            "ticket: 47 instances stay: they are the standby of orders-db: keep them",
            "stopped 3 instances, i-047 to i-049",
        ],
        [Says("choose", "Stop them instead")],
        [
            "ticket: 50 instances seem unused",
            "stopped 47 instances, i-000 to i-046",
            "stopped 3 instances, i-047 to i-049",
        ],
        {
            "ticket": "ticket: 50 instances seem unused",
            "first": "stopped 47 instances, i-000 to i-046",
            "rest": "stopped 3 instances, i-047 to i-049",
        },
    ),
    Example(
        "cleanup",
        [
            "listed 120 files in found.txt",
            "moved 120 files to the trash",
            "fetched 120 files back from the trash",
        ],
        [Says("choose", "Only older than 90 days")],
        ["listed 120 files in found.txt", "deleted 60 files"],
        "deleted 60 files",
    ),
    Example(
        "composer",
        MAILED,
        [Says("revise", "shorter"), Says("revise", "and friendlier"), Says("approve")],
        MAILED,
        "mailed okafor@example.com: Your parcel",
    ),
    Example(
        "labeller",
        LABELLED,
        [Says("deny", "a refund is no spam"), Says("modify", better), Says("approve"), Says("approve")],
        LABELLED,
        {str(number): label for number, label in enumerate((*LABELS[:3], "refund", *LABELS[4:]), 1)},
    ),
    Example(
        "pipeline",
        [*RELEASED, "rolled production back to shop:9c1e"],
        [Says("approve"), Says("approve"), Says("approve")],
        RELEASED,
        {"in use": "shop:4f2a", "why": "deployed, and nobody objected"},
    ),
    Example(
        "payments",
        PAID,
        [Says("approve"), Says("approve"), Says("approve", by="bo")],
        PAID,
        {"paid": ["R-101", "R-102", "R-103", "R-104", "R-105"], "left": []},
    ),
    Example(
        "clarify",
        DELETED,
        [Says("answer", "older than 90 days"), Says("answer", "daily"), Says("approve")],
        DELETED,
        {"how old": "older than 90 days", "where": "daily", "deleted": 5},
    ),
]

each = pytest.mark.parametrize("example", PLAYED, ids=[example.name for example in PLAYED])


@pytest.fixture(autouse=True)
def nobodys_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder's `assentry.toml` alone says where things are."""
    monkeypatch.delenv("ASSENTRY_HOME", raising=False)


def test_every_example_is_played() -> None:
    programs = {path.stem for path in EXAMPLES.glob("*.py")}
    mailers = {name for name in programs if name.endswith("_mail")}  # played by tests/adapters
    assert programs - mailers - {"playground", "scripted_model"} == {example.name for example in PLAYED}


@each
async def test_it_runs_unattended(example: Example, tmp_path: Path) -> None:
    async with theatre(EXAMPLES / f"{example.name}.py", tmp_path / "here") as stage:
        done = stage.played("--script")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "The run is finished" in done.stdout
        assert stage.ledger == example.scripted


async def finished(stage: Theatre, example: Example, *, workers: int, by_command: bool) -> None:
    """Begun, killed while parked, and gone on with by processes that have never met the first one."""
    program = stage.begun()
    await stage.until_it_says("program", "  parked")
    stage.kill(program)
    await stage.take_seats()
    assert (await stage.run()).state is RunState.PARKED

    for number in range(workers):
        stage.worker(f"worker-{number}")
    for number in range(workers):
        await stage.until_it_says(f"worker-{number}", "working for")
    for number, says in enumerate(example.decisions):
        await stage.decide(says, by_command=by_command and number == 0)
    run = await stage.until(stage.is_over, "the run is over")
    await stage.end()
    assert (run.state, run.outcome, run.error) == (RunState.FINISHED, example.outcome, "")
    assert stage.ledger == example.ledger


@each
async def test_killed_while_parked_another_process_goes_on(example: Example, tmp_path: Path) -> None:
    """On SQLite; the first decision comes from the real command, in a process of its own."""
    async with (
        postbox() as (box, address),
        theatre(EXAMPLES / f"{example.name}.py", tmp_path / "here", MAIL_SERVER=address) as stage,
    ):
        await finished(stage, example, workers=1, by_command=True)
        assert len(box.received) == sum(line.startswith("mailed") for line in example.ledger)
        for block in blocks(PAGES / f"{example.name}.md", "text"):
            assert any(shows(block, card) for card in stage.cards), f"nobody was shown this card:\n{block}"


def shows(block: str, card: Briefing) -> bool:
    """Whether a card on a page is this one: its title, its reasons and its facts."""
    text = " ".join(block.split()).lower()
    told = [card.title, *card.why, *(fact.says for fact in card.facts), *(option.label for option in card.options)]
    return all(" ".join(said.split()).lower() in text for said in told)


@pytest.mark.parametrize(
    "example", [each for each in PLAYED if each.name in ("cleanup", "pipeline")], ids=lambda each: each.name
)
async def test_on_postgresql_two_workers_race_and_no_step_happens_twice(
    example: Example, tmp_path: Path, postgres_database: str
) -> None:
    async with (
        postbox() as (box, address),
        theatre(EXAMPLES / f"{example.name}.py", tmp_path / "here", postgres_database, MAIL_SERVER=address) as stage,
    ):
        await finished(stage, example, workers=2, by_command=False)
        assert len(box.received) == sum(line.startswith("mailed") for line in example.ledger)


async def test_killed_at_every_stop_each_time_another_process_goes_on(tmp_path: Path) -> None:
    (example,) = [example for example in PLAYED if example.name == "labeller"]
    async with theatre(EXAMPLES / "labeller.py", tmp_path / "here") as stage:
        process = stage.begun()
        await stage.until_it_says("program", "  parked")
        await stage.take_seats()
        for number, says in enumerate(example.decisions):
            await stage.until(stage.waiting, "it is parked")
            stage.kill(process)
            await stage.decide(says, by_command=False)
            process = stage.worker(f"worker-{number}")
        run = await stage.until(stage.is_over, "the run is over")
        assert (run.state, run.outcome) == (RunState.FINISHED, example.outcome)
        assert stage.ledger == example.ledger


async def test_two_people_pay_what_one_alone_cannot(tmp_path: Path) -> None:
    """Played by hand: whoever sits here is Ann, and Bo agrees once she has."""
    async with theatre(EXAMPLES / "payments.py", tmp_path / "here") as stage:
        stage.begun()
        await stage.until_it_says("program", "  parked")
        await stage.take_seats()
        for _ in range(2):
            await stage.decide(Says("approve"), by_command=True)
        await stage.until(stage.is_over, "the run is over")
        assert stage.ledger == PAID
        assert stage.place is not None
        large = await stage.place.inbox.brief(stage.cards[-1].id)
        assert (large.phrase, [vote.by for vote in large.votes]) == ("pay_invoice 2400.00", ["ann", "bo"])


async def test_what_went_to_the_trash_comes_back_from_another_process(tmp_path: Path) -> None:
    async with theatre(EXAMPLES / "cleanup.py", tmp_path / "here") as stage:
        program = stage.begun()
        await stage.until_it_says("program", "  parked")
        before = {file.name: file.stat().st_mtime for file in (stage.folder / "files").iterdir()}
        await stage.take_seats()
        await stage.decide(Says("choose", "Move to trash"), by_command=False)
        await stage.until(stage.is_over, "the run is over")
        assert len(list((stage.folder / "trash").iterdir())) == 120
        stage.kill(program)
        stage.worker("worker")
        await stage.decide(Says("undo"), by_command=True)
        await stage.until(lambda: stage.in_state(State.UNDONE), "it is undone")
        assert {file.name: file.stat().st_mtime for file in (stage.folder / "files").iterdir()} == before


async def test_a_step_that_nobody_guards_is_caught_by_these_tests(tmp_path: Path) -> None:
    """The control: with the guard of one step taken away, resuming repeats it, and the ledger tells."""
    example = PLAYED[0]
    guard = '@gate.guard(reversible=True, reach="service")\nasync def open_ticket'
    text = (EXAMPLES / "infrastructure.py").read_text()
    assert guard in text
    mutant = tmp_path / "mutant" / "infrastructure.py"
    mutant.parent.mkdir()
    mutant.write_text(text.replace(guard, "async def open_ticket"))
    (mutant.parent / "playground.py").write_text((EXAMPLES / "playground.py").read_text())
    async with theatre(mutant, tmp_path / "here") as stage:
        with pytest.raises(AssertionError):
            await finished(stage, example, workers=1, by_command=False)
        assert stage.ledger.count("ticket: 50 instances seem unused") == 2
