"""Whatever is cut says so, and how much is left out: the source is searched for slices that cut and say nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

from assentry.core.text import shortened

SOURCE = Path(__file__).parent.parent / "src" / "assentry"
SHOWN = ("cli/screen/", "cli/card.py", "cli/fields.py", "server/looks/", "telling/")
"""What stands here is seen by whoever decides: a slice of a list is a cut, too."""
LEAST = 20
"""Shorter slices, elsewhere, look at how a text begins."""
NOT_CUT = {
    # What people or programs send, bounded before it is used.
    "server/api/records.py": {"value[:2000]"},
    "server/pages/record.py": {"kind[:100]", "agent[:200]", "about[:100]"},
    "server/pages/listing.py": {
        "query.get('agent', '')[:200]",
        "query.get('text', '')[:200]",
        "query.get('after', '')[:400]",
    },
    "server/pages/inbox.py": {
        "str(form.get('note', ''))[:10000]",
        "text.get('note', '')[:10000]",
        "text.get('instructions', '')[:10000]",
        "(text.get('reason', '') or text.get('quick', ''))[:10000]",
    },
    "server/pages/rules.py": {"action[:200]", "args[:20000]", "agent[:200]"},
    "server/pages/runs.py": {"agent[:200]", "after[:200]"},
    "engine/passkeys.py": {"name[:100]"},
    "remote/errands.py": {"attempt[:200]"},
    "remote/run.py": {"reason[:2000]", "seen.source[:200]"},
    "remote/calls.py": {"reason[:2000]"},
    "adapters/mcp_proxy/oauth.py": {
        "told[:10000]",
        "re.sub('[^a-z0-9_.-]', '', str(told.get('error', '')).lower())[:60]",
    },
    # How a text begins is looked at, and the text itself goes on.
    "core/description.py": {"text[:120]"},
    "core/command_text.py": {"text[:6000]"},
    "core/condition_errors.py": {
        "token[:40]",
        "name[:60]",
        "root[:60]",
        "word[:60]",
        "f'{roots[0]}.{rest}'[:60]",
    },
    "core/policy_text.py": {"shown[:57]", "word[:80]"},
    # Words that are short names of longer ones.
    "server/visitors.py": {"hashlib.sha256(b'assentry-csrf:' + session.family.encode()).hexdigest()[:40]"},
    "engine/errands.py": {"sha256(name.encode()).hexdigest()[:32]"},
    "engine/callers.py": {"sha256(f'{agent}\\x00{name}'.encode()).hexdigest()[:24]"},
    "adapters/mcp_proxy/logins.py": {"sha256(url.encode()).hexdigest()[:32]"},
    # In the log of a program.
    "adapters/mcp_proxy/calls.py": {"ascii(dropped[:10])[:300]"},
    # In what somebody typed at a command.
    "cli/changing.py": {"text[:40]"},
    "cli/card.py": {"run[:13]", "run[:40]"},
    # A count of the rest stands behind it.
}
COUNTED = {
    # How much is left out stands beside it, or it is only taken apart.
    "cli/fields.py": {
        "'\\n'.join(lines[:MOST_LINES])[:LONGEST_TEXT]",
        "items[:MOST_ITEMS]",
        "lines[:MOST_LINES]",
        "names[:MOST_ITEMS * 2]",
    },
    "cli/screen/bar.py": {"held_up[:3]", "rows[:-1]"},
    "cli/screen/card.py": {
        "question.choices[:9]",
        "items[:6]",
        "brief.warnings[:_WARNINGS]",
        "text[:_CLAIM_CHARACTERS]",
        "title[:_TITLE_ROWS - 1]",
    },
    "cli/screen/edit.py": {"str(value)[:_TOO_LONG]"},
    "cli/screen/fields.py": {"items[:3]", "rows[:_HEAD_ROWS]", "value[:_HEAD_CHARACTERS]"},
    "cli/screen/lines.py": {"text[:max(0, width) + 1]"},
    "cli/screen/live.py": {"self.shelves[View.WAITING].rows[:PAGE]"},
    "server/looks/card.py": {"left[:_PLANNED]"},
    "server/looks/values.py": {"parts[:5]", "parts[:3]", "items[:drawn]", "shown[:_SHOWN_FIRST]"},
    "telling/drafts.py": {"drafts.before[:-1]", "found[:_FOLDED_LINES]", "shown[:_FOLDED_ITEMS]", "words[:near]"},
    "telling/run_words.py": {"text[:limit]"},
    "telling/timeline.py": {"run.plan[:12]"},
}


def cuts() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if name.startswith(("demo/", "testing/")):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.lower is None:
                upper = node.slice.upper
                number = upper.value if isinstance(upper, ast.Constant) else None
                is_long = isinstance(number, int) and number >= LEAST
                is_shown = name.startswith(SHOWN) and upper is not None and number not in (1, 2, 8, 16)
                if is_long or is_shown:
                    yield name, ast.unparse(node)


def test_every_slice_that_cuts_says_so_or_cuts_nothing_that_anybody_sees() -> None:
    allowed = {(name, each) for table in (NOT_CUT, COUNTED) for name, found in table.items() for each in found}
    found = set(cuts())
    assert found - allowed == set(), "use shortened() of assentry.core.text, or say how many are left out"
    assert allowed - found == set(), "these are no longer there"


def test_what_is_shortened_says_how_much_is_left_out() -> None:
    for length in (301, 1_000, 99_999, 1_000_000):
        told = shortened("x" * length, 300)
        kept = told.index("…")
        assert told == f"{'x' * kept}… {length - kept:,} more characters"
        assert len(told) <= 300
    assert shortened("x" * 300, 300) == "x" * 300
