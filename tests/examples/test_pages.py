"""The pages about the examples show the programs as they are, and every example has one."""

import re
from pathlib import Path

import pytest

from tests.examples.test_examples import PLAYED
from tests.examples.theatre import EXAMPLES, PAGES, blocks

NAMES = [example.name for example in PLAYED]


@pytest.mark.parametrize("name", NAMES)
def test_what_a_page_shows_stands_in_the_program(name: str) -> None:
    """Line by line and in order; lines in between may be left out."""
    page = PAGES / f"{name}.md"
    shown = blocks(page, "py")
    assert shown
    assert f"python examples/{name}.py" in page.read_text()
    for block in shown:
        assert_within(block, EXAMPLES / f"{name}.py")
    for block in blocks(page, "yaml"):
        assert_within(block, EXAMPLES / f"{name}.yaml")


def test_the_overview_names_them_all_and_shows_the_shape_they_share() -> None:
    page = PAGES / "README.md"
    assert re.findall(r"^\| \[(\w+)\]", page.read_text(), re.MULTILINE) == NAMES
    for block in blocks(page, "py"):
        assert_within(block, EXAMPLES / "infrastructure.py")


def assert_within(block: str, program: Path) -> None:
    lines = iter([line.strip() for line in program.read_text().splitlines()])
    for wanted in filter(None, (line.strip() for line in block.splitlines())):
        assert wanted in lines, f"{program.name} has no such line, or not in this order: {wanted}"
