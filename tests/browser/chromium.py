"""A real Chromium for tests and evidence. Nothing here needs pytest.

It is the one named by `ASSENTRY_CHROMIUM`, the one of the system, or the one that Playwright brings along. The headless
shell comes first: the same engine without the desktop around it, which takes a third less processor time.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright import sync_api
from playwright.async_api import Browser, Playwright, async_playwright

NAMED = "ASSENTRY_CHROMIUM"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "no Chromium was found: install one (Debian: apt-get install chromium-headless-shell) or name one in ASSENTRY_CHROMIUM"

QUIET = (
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
)


class NoChromium(RuntimeError):
    """There is no Chromium to drive."""


def launch(playwright: Playwright | sync_api.Playwright) -> dict[str, Any]:
    """What to launch it with."""
    # Chromium refuses its sandbox to root; everybody else keeps it.
    flags = [*QUIET, "--no-sandbox"] if os.geteuid() == 0 else list(QUIET)
    return {"executable_path": found(playwright), "args": flags}


def found(playwright: Playwright | sync_api.Playwright) -> str:
    """The path of the Chromium that is used; the error says what to install."""
    named = os.environ.get(NAMED, "")
    if named:
        path = shutil.which(named)
        if path is None:
            raise NoChromium(f"{NAMED} names {named}, which cannot be run")
        return path
    for name in NAMES:
        path = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/local/bin:/snap/bin")
        if path is not None:
            return path
    if Path(playwright.chromium.executable_path).exists():
        return playwright.chromium.executable_path
    raise NoChromium(HOW)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a window, gone afterwards."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**launch(playwright))
        try:
            yield browser
        finally:
            await browser.close()


async def _look() -> str:
    async with async_playwright() as playwright:
        return found(playwright)


if __name__ == "__main__":
    # For the set-up: silent where there is one, else one line that says what to install.
    try:
        asyncio.run(_look())
    except NoChromium as problem:
        sys.exit(str(problem))
