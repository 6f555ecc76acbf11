"""Every key of the inbox: what it does, and how that is told in the help; the documentation is checked against both."""

from textual.binding import Binding

from assentry.cli.screen.lines import BLANK, DASH, Row, flow, line
from assentry.cli.screen.look import Look

BINDINGS: tuple[Binding, ...] = (
    Binding("a", "decide('approve')", show=False),
    Binding("d", "decide('deny')", show=False),
    Binding("m", "decide('modify')", show=False),
    Binding("s", "decide('send_back')", show=False),
    Binding("c", "decide('choose_from')", show=False),
    Binding("u", "decide('undo')", show=False),
    Binding("r", "decide('look')", show=False),
    Binding("f", "decide('flag')", show=False),
    *(Binding(str(number), f"choose({number})", show=False) for number in range(1, 10)),
    Binding("p", "hold", show=False),
    Binding("w", "timeline", show=False),
    Binding("e", "open", show=False),
    Binding("J", "raw", show=False),
    Binding("enter", "to_card", show=False),
    Binding("tab,shift+tab", "other_side", show=False),
    Binding("right_square_bracket,right", "view(1)", show=False),
    Binding("left_square_bracket,left", "view(-1)", show=False),
    Binding("slash", "search", show=False),
    Binding("escape", "back", show=False),
    Binding("t", "theme", show=False),
    Binding("R", "again", show=False),
    Binding("question_mark", "help", show=False),
    Binding("q", "app.quit", show=False),
)


def help_lines(width: int, look: Look) -> list[Row]:
    """Every key, in groups."""
    rows: list[Row] = []
    for title, keys in HELP:
        rows += [line((title, look.soft + look.strong))]
        for key, does in keys:
            rows += flow([(does, look.ink)], width, (f" {key} ".rjust(14), look.accent), 16)
        rows.append(BLANK)
    return rows


HELP: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Moving", (
        ("↑ ↓ j k", "the next or previous request; on the card, scroll"),
        ("enter tab", "to the card and back; enter never approves"),
        ("[ ] ← →", "the previous or next view"),
        ("/", "search; esc ends it"),
        ("g G", "first, last"),
    )),
    ("Deciding", (
        ("a", "approve as asked (dangerous: then y; critical: type it, then ctrl+y); answer; accept what ran"),
        (f"1{DASH}9", "choose that option or answer: shows exactly what it runs, then y"),
        ("c", "choose from all options"),
        ("d", "deny, with one of five reasons or your own"),
        ("m", "modify the arguments; ctrl+e in the form opens $EDITOR"),
        ("s", "send back with instructions"),
    )),
    ("Its run", (
        ("w", "what the run did so far: every step, who decided, and what it may do"),
        ("p", "pause the run, and time with it; again lets it go on"),
    )),
    ("After it ran", (
        ("u", "undo, while its window is open"),
        ("r", "say what became of an unknown outcome, or review"),
        ("f", "flag what ran"),
    )),
    ("Looking", (
        ("e", "open everything that is folded, and fold it again"),
        ("J", "the raw JSON that runs"),
        ("t", "light or dark"),
        ("R", "read everything again"),
        ("?", "this"),
        ("q", "quit"),
    )),
)  # fmt: skip
