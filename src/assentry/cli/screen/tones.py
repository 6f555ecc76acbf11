"""What is told in the same words everywhere, in the colours and with the keys of the screen."""

from collections.abc import Callable

from rich.style import Style

from assentry.cli.screen.look import Look
from assentry.telling.background import Ways
from assentry.telling.told import Tone


def paint(look: Look) -> Callable[[Tone], Style]:
    """The tones in the colours of a theme."""
    strong = Style(bold=True, underline=True)
    good, warn, bad = (Style(color=style.color) for style in (look.ok, look.risky, look.danger))
    styles = {
        Tone.PLAIN: look.ink, Tone.STRONG: look.strong, Tone.SOFT: look.soft, Tone.GOOD: good,
        Tone.WARN: warn, Tone.BAD: bad, Tone.SAFE: look.ok, Tone.RISKY: look.risky,
        Tone.DANGEROUS: look.danger, Tone.CRITICAL: look.critical, Tone.ASKED: look.ask, Tone.CLAIM: look.claim,
        Tone.BOX: look.claim_line, Tone.ADDED: look.added, Tone.GONE: look.gone, Tone.ADDED_WORD: look.added + strong,
        Tone.GONE_WORD: look.gone + strong,
    }  # fmt: skip
    return styles.__getitem__


WAYS = Ways(approve="a", send_back="s", pause="p", go="p", deny="d", stop="d ctrl+x", history="e opens every round")
