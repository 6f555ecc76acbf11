"""The application around the screen: themes, no markup, and the last filter before the terminal."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import ClassVar

from textual.app import App
from textual.filter import LineFilter
from textual.screen import Screen

from assentry.cli.screen.inbox import InboxScreen
from assentry.cli.screen.look import THEMES, WITHOUT_COLOUR, Look, theme_for
from assentry.cli.screen.paper import Inert
from assentry.settings import Settings


class InboxApp(App[int]):
    """`assentry inbox`."""

    TITLE = "assentry inbox"
    CSS_PATH: ClassVar[str | PurePath | list[str | PurePath] | None] = Path(__file__).with_name("style.tcss")
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, settings: Settings) -> None:
        self._plain = bool(os.environ.get("NO_COLOR"))
        self._inert = Inert()
        super().__init__(ansi_color=True if self._plain else None)
        self._settings = settings
        for theme, _ in THEMES.values():
            self.register_theme(theme)
        self.theme = theme_for(os.environ.get("COLORFGBG", ""))
        self.set_class(self._plain, "plain")

    @property
    def look(self) -> Look:
        """The styles of the theme that is on."""
        return WITHOUT_COLOUR if self._plain else THEMES[self.theme][1]

    def get_default_screen(self) -> Screen[None]:
        return InboxScreen(self._settings, lambda: self.look)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """What every line passes last; agent text was made inert before, and here again."""
        return [*super().get_line_filters(), self._inert]
