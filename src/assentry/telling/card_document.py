"""A card for scripts and for the API."""

import dataclasses

from assentry.core.action import Json
from assentry.core.briefing import Briefing


def document(card: Briefing) -> dict[str, Json]:
    """The card for scripts: every field of the briefing, options numbered as people see them."""
    made: dict[str, Json] = {field.name: getattr(card, field.name) for field in dataclasses.fields(card)}
    del made["args_text"]
    numbered = [
        {field.name: getattr(option, field.name) for field in dataclasses.fields(option)} for option in card.options
    ]
    made["options"] = [{**option, "number": option["number"] + 1} for option in numbered]
    return made
