"""Hostile text in every field of a request: in a real browser no script runs, nothing is fetched, nothing leaves its
box; in the terminal no control byte is written."""

import asyncio
import io
import os
import re
import tempfile
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from playwright.async_api import BrowserContext, Page, Route
from playwright.async_api import Error as Broken

import assentry
from assentry.cli.app import run as command
from assentry.cli.screen import card as drawing
from assentry.cli.screen import lines
from assentry.cli.screen.card import Shown
from assentry.cli.screen.look import THEMES
from assentry.core.authority import Principal, principal_named
from assentry.core.briefing import brief
from assentry.core.request import Request
from assentry.engine.chronicle import Chronicle
from assentry.errors import AssentryError
from assentry.server.looks import values
from assentry.server.pages import frame
from assentry.telling.background import background
from tests.browser.chromium import chromium
from tests.browser.house import PEOPLE, Guest, House, built
from tests.evidence.outcome import Control, Outcome
from tests.evidence.payloads import ALL, HALVES, Payload, payloads

INSPECT = (Path(__file__).parent / "hostile.js").read_text()
LISTEN = """
window.__csp = [];
document.addEventListener("securitypolicyviolation", (event) => window.__csp.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
SEEN = """
(fields) => Object.fromEntries(Object.entries(fields).map(([name, selector]) => {
  const text = [...document.querySelectorAll(selector)].map((each) => each.textContent).join(" ");
  return [name, [...new Set(text.match(/zq\\d+qz/g) ?? [])]];
}))
"""
FIELDS = {
    "titles": "#card h1", "names of arguments": "#card .args dt", "values of arguments": "#card .args dd",
    "the action's name": "#card .args .action-name", "the agent's name": "#card .meta", "claims": "#card .claims",
    "options": "#card .options button", "the run beside it": "#beside",
    "questions": "#card .question, #card:has(.question) h1", "choices": "#decide .choices", "results and errors": "#card .outcome",
    "notes": "#card .votes", "what a denial means": ".if-denied",
}  # fmt: skip
"""Where on a card a text can be seen; how many different ones were is counted."""
PATHS = re.compile(r"/(static/[a-z]+\.(js|css)|icon\.svg|api/v1/events|enter|r/[0-9a-z]+(/(seen|preview))?)?")
POLICY = PEOPLE + "rules: [{name: all, actions: ['*'], gate: hard, because: everything waits here}]\n"
AT_ONCE = 50
"""How many payloads share one request; each is in every field of it."""


LISTED_EVERY, DEEP_EVERY, HEARD_LIVE = 10, 4, 3
"""A list shows fifty, so every tenth batch is enough to see all. Search, preview and commands show again what cards do,
so every fourth. A page that hears of everything draws all of it anew."""


@dataclass(frozen=True, slots=True)
class Size:
    payloads: int
    planted: int
    bugs: int
    """As many of the planted bugs are tried, each with a browser of its own."""


FULL = Size(payloads=12_000, planted=50, bugs=3)
SAMPLE = Size(payloads=30, planted=6, bugs=1)
Progress = Callable[[str], None]


@dataclass
class Watched:
    """A browser that notes down everything a page does beyond being read."""

    url: str
    wrong: list[str] = field(default_factory=list)
    calls: int = 0
    pages: int = 0
    seen: dict[str, set[str]] = field(default_factory=dict)

    async def over(self, context: BrowserContext) -> None:
        await context.add_init_script(LISTEN)
        await context.route("**/*", self._asked)
        context.on("dialog", self._dialog)
        context.on("page", self._opened)

    def page(self, page: Page) -> None:
        page.on("pageerror", lambda problem: self.wrong.append(f"an error in the page: {problem}"[:200]))
        page.on("console", lambda said: self._said(said.type, said.text))

    async def _asked(self, route: Route) -> None:
        self.calls += 1
        asked = urlsplit(route.request.url)
        if f"{asked.scheme}://{asked.netloc}" == self.url and PATHS.fullmatch(asked.path):
            return await route.continue_()
        self.wrong.append(f"a request went to {route.request.url[:120]}")
        return await route.abort()

    async def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"a dialog: {dialog.message[:80]}")
        await dialog.dismiss()

    def _opened(self, page: Page) -> None:
        self.page(page)

    def _said(self, kind: str, text: str) -> None:
        if kind == "error" or "Content Security Policy" in text or "TrustedHTML" in text:
            self.wrong.append(f"the console: {text[:160]}")


@dataclass(frozen=True, slots=True)
class Put:
    """Requests with the same payloads in them: one that waits, a question, one with options, one that ran, one that failed."""

    waits: str
    others: tuple[str, ...]
    plain: bool


async def put(house: House, number: int, texts: Sequence[str], *, plain: bool = False) -> Put:
    """Every text is in every field that an agent or a tool writes, and in the note of a person."""
    joined, gate = " ".join(texts), house.gate
    says = " ".join(f"{{a{at}}}" for at in range(len(texts)))
    said = {
        "why": f"qsaysq {joined}", "goal": joined, "alternatives": tuple(f"qsaysq {each}" for each in texts),
        "agent": f"agent {number} {joined}",
    }  # fmt: skip
    named = {f"a{at}": text for at, text in enumerate(texts)}
    odd = {text: text for text in texts} | {"nested": {texts[0]: [{"deep": {texts[-1]: list(texts[:3])}}]}}
    mail = {"to": list(texts), "subject": texts[0], "body": joined}
    sql = {"sql": f"select {joined}", "command": joined, "diff": f"--- a\n+++ b\n@@ -1 +1 @@\n+{joined}"}
    options = [assentry.option(joined, joined, {"a0": joined}), assentry.option(joined[:900], texts[-1])]
    async with gate.run(joined, agent=said["agent"], original=joined, patience=0) as run:
        await run.plan(texts)
        await run.observed(texts[0], joined)
        await run.observed("mail", "\n".join(texts), trusted=True)
        waits = await house.asks(
            f"delete {joined}", {**named, **odd, **mail, **sql},
            says=says, description=joined, if_denied=joined, **said,
        )  # fmt: skip
    offers = await house.asks("offer", {"a0": joined}, says="Offer {a0}", options=options, **said)
    asked = await house.wonders(joined, choices=[*dict.fromkeys(texts)], best_guess=texts[0], **said)
    ran = await _ran(house, number, texts, joined, said)
    return Put(waits.code, (asked, offers.code, *ran), plain)


async def _ran(house: House, number: int, texts: Sequence[str], joined: str, said: dict[str, Any]) -> list[str]:
    """One that returned the texts and one that failed with them, both approved with them as a note."""
    codes = []
    for fails in (False, True):
        proposal = await house.gate.propose(
            "write_file", {"path": joined, "n": number}, says="Write {path}", declared=None, **said
        )
        assert proposal.request is not None
        await _approved(house, proposal.request, joined)
        try:
            async with proposal.execution() as execution:
                if fails:
                    raise RuntimeError(joined)
                execution.result = {joined: list(texts)}
        except RuntimeError:
            pass
        codes.append(proposal.request.code)
    return codes


async def _approved(house: House, request: Request, note: str) -> None:
    desk = (await house.server.premises.room("default")).desk
    if (await house.now(request)).state.value == "pending":
        await desk.inbox.approve(_alice(house), request.id, note=note)


def _alice(house: House) -> Principal:
    found = principal_named(house.gate.policy, "alice")
    assert found is not None
    return found


async def _looked(guest: Guest, watched: Watched, address: str, *, card: bool = True) -> list[str]:
    await guest.page.goto(f"{watched.url}{address}")
    watched.pages += 1
    for name, tokens in (await guest.page.evaluate(SEEN, FIELDS)).items():
        watched.seen.setdefault(name, set()).update(tokens)
    return await guest.page.evaluate(INSPECT, card)


async def listed(guest: Guest, watched: Watched) -> list[str]:
    """What is wrong with the lists as they are."""
    pages = ("/?tab=team", "/?tab=decided")
    return [f"{page}: {each}" for page in pages for each in await _looked(guest, watched, page)]


async def browsed(guest: Guest, watched: Watched, made: Put) -> list[str]:
    """What is wrong with the cards of these requests."""
    wrong: list[str] = []
    headings = []
    for code in (made.waits, *made.others):
        wrong += [f"/r/{code}: {each}" for each in await _looked(guest, watched, f"/r/{code}?whole=1")]
        headings += await guest.at("#card h2").all_text_contents()
    known = re.compile(
        r"Why you are asked|What you can do|Exactly this( runs)?|The agent says its own words, not checked|Votes|Outcome"
        r"|The question|Run [0-9a-z]+|The run|Changed since it was asked|[A-Z][a-z ]{2,40}"
    )
    wrong += [f"a heading of others: {each[:60]!r}" for each in headings if not known.fullmatch(" ".join(each.split()))]
    return wrong


async def handled(guest: Guest, watched: Watched, made: Put, texts: Sequence[str]) -> list[str]:
    """What is wrong with a search for the texts, and with the preview of a change."""
    wrong: list[str] = []
    words = quote(" ".join(texts)[:190])
    wrong += [f"search: {each}" for each in await _looked(guest, watched, f"/?text={words}&agent={words}&tab=team")]
    await guest.page.goto(f"{watched.url}/r/{made.waits}")
    await guest.page.evaluate("document.querySelector('[data-act=modify]').open = true")
    await guest.at('[name="arg:body"]').fill('"another body"' if not made.plain else "another body")
    await guest.page.get_by_role("button", name="Look at the change").click()
    await guest.at(".changes").wait_for()
    await guest.page.wait_for_load_state()  # without its style sheet a page is as wide as its longest word
    wrong += [f"preview: {each}" for each in await guest.page.evaluate(INSPECT, False)]
    if await guest.at(".changes dt").all_text_contents() != ["body"]:
        wrong.append("preview: the form changed more than was typed into it")
    return wrong


def _controls(text: str, *, rows: bool = True) -> Iterator[str]:
    for char in set(text):
        if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            yield f"U+{ord(char):04X}"


async def drawn(house: House, made: Put) -> list[str]:
    """What the terminal inbox draws of these requests that a terminal would obey."""
    wrong, look = [], THEMES["assentry-dark"][1]
    chronicle = Chronicle(house.gate._store, house.gate.workspace)
    desk = (await house.server.premises.room("default")).desk
    for code in (made.waits, *made.others):
        found = await desk.inbox.find(code)
        now, about = await house.gate._store.now(), await background(chronicle, found)
        shown = Shown(brief(found, now), whole=True, about=about)
        rows = drawing.head(shown.brief, now, 100, look) + drawing.body(shown, now, 100, look)
        written = "\n".join(segment.text for row in rows for segment in row)
        wrong += [f"the inbox draws {each} of {code}" for each in _controls(written)]
    return wrong


async def printed(made: Put) -> list[str]:
    """What commands print of these requests that a terminal would obey."""
    wrong = []
    for words in (
        ["show", made.waits, "--full"],
        ["show", made.others[-1], "--full"],
        ["show", made.others[0], "--json"],
    ):
        said = await asyncio.to_thread(_commanded, words)
        wrong += [f"assentry {' '.join(words)} prints {each}" for each in _controls(said)]
    return wrong


def _commanded(words: list[str]) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        command(words)
    return out.getvalue()


async def halves(house: House) -> list[str]:
    """Half a surrogate pair is turned away wherever it comes in, or shown spelled out; nothing breaks."""
    wrong = []
    for number, text in enumerate(HALVES):
        for given in ({"args": {"a": text}}, {"args": {text: 1}}, {"why": text}, {"agent": text}, {"says": text}):
            try:
                request = await house.asks(**{"args": {"a": number}, "agent": f"half {number}", **given})
            except (AssentryError, UnicodeEncodeError):
                continue
            desk = (await house.server.premises.room("default")).desk
            shown = str(brief(await desk.inbox.find(request.code), await house.gate._store.now()).title)
            wrong += (
                [f"half a pair in a title: {text!a}"] if any("\ud800" <= char <= "\udfff" for char in shown) else []
            )
    return wrong


async def searched(directory: str, seed: int, count: int, progress: Progress) -> tuple[dict[str, int], list[str]]:
    """How much was looked at, and everything that was wrong."""
    database = str(Path(directory) / "assentry.db")
    os.environ["ASSENTRY_HOME"], os.environ["ASSENTRY_DATABASE"] = directory, database
    figures = {"payloads": 0, "requests": 0}
    wrong: list[str] = []
    async with chromium() as browser, built(browser, database, POLICY) as house:
        watched = Watched(house.url)
        guest = await house.guest()
        await watched.over(guest.page.context)
        watched.page(guest.page)
        live = Guest(house, await guest.page.context.new_page())
        await live.page.goto(f"{house.url}/?tab=team")
        await live.is_live()
        for number, batch in enumerate(_batches(payloads(seed, count), AT_ONCE)):
            texts = [each.text for each in batch]
            made = await put(house, number, texts)
            try:
                found = await browsed(guest, watched, made) + await drawn(house, made)
                if number % DEEP_EVERY == 0:
                    found += await handled(guest, watched, made, texts) + await printed(made)
                found += await listed(guest, watched) if number % LISTED_EVERY == 0 else []
                if number < HEARD_LIVE:
                    found += [f"live: {each}" for each in await live.page.evaluate(INSPECT, True)]
                elif number == HEARD_LIVE:
                    await live.page.close()
            except Broken as problem:
                found = [f"the page broke: {str(problem)[:200]}"]
            wrong += [
                f"batch {number} ({batch[0].number}–{batch[-1].number}): {each}" for each in found + watched.wrong
            ]
            watched.wrong.clear()
            figures["payloads"] += len(batch)
            figures["requests"] += 1 + len(made.others)
            tokens = {each.token for each in batch}
            for name in FIELDS:
                missing = len(tokens - watched.seen.get(name, set()))
                wrong += [f"batch {number}: {missing} texts were nowhere to be seen in {name}"] if missing else []
            progress(f"{figures['payloads']} of {count} payloads, {len(wrong)} wrong")
        wrong += await halves(house)
        figures |= {"calls of the browser": watched.calls, "pages": watched.pages}
        figures |= {f"seen in {name}": len(tokens) for name, tokens in watched.seen.items()}
    return figures, wrong


def _batches(found: Iterator[Payload], size: int) -> Iterator[list[Payload]]:
    while batch := list(islice(found, size)):
        yield batch


@contextmanager
def unescaped() -> Iterator[None]:
    """Templates escape nothing."""
    frame.templates.cache_clear()
    frame.templates().autoescape = False
    try:
        yield
    finally:
        frame.templates.cache_clear()


@contextmanager
def raw() -> Iterator[None]:
    """Values are shown as they are, with whatever hides in them."""
    before, values.visible = values.visible, lambda text, **_: text  # type: ignore[assignment]
    try:
        yield
    finally:
        values.visible = before


@contextmanager
def obeyed() -> Iterator[None]:
    """The terminal gets what the agent wrote."""
    before, lines.visible = lines.visible, lambda text, **_: text  # type: ignore[assignment]
    try:
        yield
    finally:
        lines.visible = before


PLANTED = {
    "templates escape nothing": (
        unescaped,
        ("element", "content policy", "console", "request went", "script", "broke"),
    ),
    "values are shown with what hides in them": (raw, ("U+",)),
    "the terminal gets what the agent wrote": (obeyed, ("the inbox draws",)),
}


def run(seed: int, size: Size, progress: Progress) -> Outcome:
    """The whole of it, and the bugs that it must find."""
    outcome = Outcome(
        "hostile",
        "text of agents never becomes markup, script, a fetch, a link or a terminal control sequence",
        ("I10", "I11"),
        seed,
        sizes={"payloads": size.payloads, "combinations": ALL, "at once": AT_ONCE},
        bounds={"browser": "Chromium", "fields": "every text field of a request, its run, its question and its result"},
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assentry-hostile-") as directory:
        outcome.take(*asyncio.run(searched(directory, seed, size.payloads, progress)))
    for bug, (plant, told) in islice(PLANTED.items(), size.bugs):
        with tempfile.TemporaryDirectory(prefix="assentry-hostile-") as directory, plant():
            figures, wrong = asyncio.run(searched(directory, seed, size.planted, lambda _: None))
        said = next((each for each in wrong if any(word in each for word in told)), "")
        outcome.controls.append(Control(bug, bug, bool(said), figures["payloads"] if said else None, said[:160]))
    outcome.seconds = time.monotonic() - began
    return outcome
