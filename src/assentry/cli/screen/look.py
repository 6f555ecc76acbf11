"""The look of the inbox: one palette for dark, for light and for no colour, and the mark of each risk.

Nothing here rests on colour alone: every level has a shape, a word and a rail of its own.
"""

from dataclasses import dataclass

from rich.style import Style
from textual.theme import Theme

from assentry.core.action import Risk
from assentry.core.briefing import Briefing
from assentry.core.request import Kind
from assentry.telling.told import SHAPES

RAILS = {Risk.SAFE: "┊", Risk.RISKY: "│", Risk.DANGEROUS: "┃", Risk.CRITICAL: "█"}
PLAIN = Style()


@dataclass(frozen=True, slots=True)
class Look:
    """The styles of one theme. They carry no background of their own unless they are a label or a key."""

    ink: Style
    strong: Style
    soft: Style
    faint: Style
    line: Style
    accent: Style
    ok: Style
    risky: Style
    danger: Style
    critical: Style
    ask: Style
    chip: Style
    hurt: Style
    key: Style
    off: Style
    loud: Style
    alarm: Style
    chosen: Style
    claim: Style
    claim_line: Style
    added: Style
    gone: Style

    def of(self, risk: Risk) -> Style:
        """The colour of a risk, beside its shape."""
        return {
            Risk.SAFE: self.ok, Risk.RISKY: self.risky, Risk.DANGEROUS: self.danger, Risk.CRITICAL: self.critical,
        }[risk]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mark:
    """How serious a request is, at a glance and without colour."""

    shape: str
    word: str
    rail: str
    style: Style


def mark(brief: Briefing, look: Look) -> Mark:
    """The mark of a request: of its risk, or of a question."""
    if brief.kind is Kind.QUESTION:
        return Mark("?", "Question", "╎", look.ask)
    return mark_of(brief.risk, look)


def mark_of(risk: Risk, look: Look) -> Mark:
    """The mark of a risk."""
    return Mark(SHAPES[risk], str(risk).capitalize(), RAILS[risk], look.of(risk))


def _look(c: dict[str, str]) -> Look:
    def ink(name: str, *, bold: bool = False) -> Style:
        return Style(color=c[name], bold=bold or None)

    return Look(
        ink=ink("ink"),
        strong=ink("ink", bold=True),
        soft=ink("soft"),
        faint=ink("faint"),
        line=ink("line"),
        accent=ink("accent", bold=True),
        ok=ink("ok", bold=True),
        risky=ink("risky", bold=True),
        danger=ink("danger", bold=True),
        critical=ink("critical", bold=True),
        ask=ink("accent", bold=True),
        chip=Style(color=c["ink"], bgcolor=c["chip"]),
        hurt=Style(color=c["danger"], bgcolor=c["danger_wash"], bold=True),
        key=Style(color=c["paper"], bgcolor=c["soft"], bold=True),
        off=Style(color=c["faint"], strike=True),
        loud=Style(color=c["paper"], bgcolor=c["risky"], bold=True),
        alarm=Style(color=c["paper"], bgcolor=c["danger"], bold=True),
        chosen=Style(bgcolor=c["chosen"]),
        claim=Style(color=c["claim_ink"]),
        claim_line=Style(color=c["claim_line"]),
        added=ink("ok"),
        gone=ink("danger"),
    )


_DARK = {
    "ink": "#e8ebef", "soft": "#a3adb8", "faint": "#7d8792", "line": "#39414a", "paper": "#14171b", "wash": "#0e1114",
    "accent": "#6aa9ff", "ok": "#5cc98b", "risky": "#e5b567", "danger": "#ff8a7a", "danger_wash": "#3a1a16",
    "critical": "#d2a8ff", "chip": "#262c33", "chosen": "#22303f", "claim_ink": "#cfc6a8", "claim_line": "#8a7f5c",
}  # fmt: skip
_LIGHT = {
    "ink": "#1b1f24", "soft": "#4d5761", "faint": "#6a737d", "line": "#c9ced4", "paper": "#ffffff", "wash": "#f6f7f9",
    "accent": "#0b63ce", "ok": "#1a7f4b", "risky": "#8a5a06", "danger": "#b42318", "danger_wash": "#fde4e1",
    "critical": "#6b21a8", "chip": "#e9edf1", "chosen": "#dcebfd", "claim_ink": "#5c5331", "claim_line": "#a2925c",
}  # fmt: skip

_BOLD, _TURNED = Style(bold=True), Style(reverse=True)
WITHOUT_COLOUR = Look(
    ink=PLAIN, strong=_BOLD, soft=PLAIN, faint=Style(dim=True), line=Style(dim=True), accent=_BOLD, ok=PLAIN,
    risky=_BOLD, danger=_BOLD, critical=Style(bold=True, underline=True), ask=_BOLD, chip=Style(underline=True),
    hurt=Style(reverse=True, bold=True), key=_TURNED, off=Style(strike=True, dim=True), loud=_TURNED, alarm=_TURNED,
    chosen=_TURNED, claim=Style(italic=True), claim_line=Style(dim=True), added=_BOLD, gone=Style(dim=True),
)  # fmt: skip


def _theme(name: str, c: dict[str, str], *, dark: bool) -> Theme:
    return Theme(
        name=name, dark=dark, primary=c["accent"], secondary=c["soft"], accent=c["accent"], warning=c["risky"],
        error=c["danger"], success=c["ok"], foreground=c["ink"], background=c["wash"], surface=c["paper"],
        panel=c["chip"],
        variables={
            "rule": c["line"], "chosen": c["chosen"], "border": c["accent"], "border-blurred": c["line"],
            "scrollbar": c["line"], "scrollbar-background": c["paper"], "scrollbar-corner-color": c["paper"],
            "scrollbar-hover": c["soft"], "scrollbar-active": c["accent"], "scrollbar-background-hover": c["paper"],
            "scrollbar-background-active": c["paper"],
        },
    )  # fmt: skip


THEMES = {
    "assentry-dark": (_theme("assentry-dark", _DARK, dark=True), _look(_DARK)),
    "assentry-light": (_theme("assentry-light", _LIGHT, dark=False), _look(_LIGHT)),
}


def other_theme(name: str) -> str:
    """Light instead of dark, or the other way round."""
    return "assentry-light" if name == "assentry-dark" else "assentry-dark"


def theme_for(terminal: str) -> str:
    """The theme that fits the terminal's background, as `COLORFGBG` tells it; dark where nothing does."""
    background = terminal.rpartition(";")[2]
    return "assentry-light" if background.isdigit() and int(background) in (7, 15) else "assentry-dark"
