"""Fields to write in. Keys take effect in the order they were typed, also when many arrive at once.

Textual lets letters act in the field itself and sends editing keys, and keys of the dialog, the longer way through
the whole app: pasted or typed quickly over a slow line, `ab⌫` became `a` before `b`. Here all of them act in the field.
"""

from typing import TYPE_CHECKING

from textual import events
from textual.dom import DOMNode
from textual.widgets import Input, TextArea

if TYPE_CHECKING:
    from textual.widget import Widget

    _Base = Widget
else:
    _Base = object


class _InOrder(_Base):
    async def _on_key(self, event: events.Key) -> None:
        if not event.is_printable:
            # Keys of the dialog around it come first: enter sends, and breaks no line.
            dialog: dict[str, str] = getattr(self.screen, "IN_ORDER", {})
            todo: list[tuple[str, DOMNode]] = [(dialog[event.key], self.screen)] if event.key in dialog else []
            todo += [(each.action, self) for each in self._bindings.key_to_bindings.get(event.key, ())]
            for action, target in todo:
                if await self.app.run_action(action, target):
                    event.stop()
                    event.prevent_default()
                    return
        await super()._on_key(event)


class Line(_InOrder, Input):
    """One line."""


class Area(_InOrder, TextArea):
    """Several lines."""


class PhraseInput(Line):
    """A line that must be typed: pasting into it does nothing."""

    def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()
        event.stop()
