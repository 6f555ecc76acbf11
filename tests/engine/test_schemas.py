"""What does not fit a schema is said in words: where, what would fit, and never a value."""

from typing import Any

import pytest

from assentry.engine.schemas import check_fits
from assentry.errors import InvalidDecision

SECRET = "a secret value"


@pytest.mark.parametrize(
    ("schema", "value", "says"),
    [
        ({"type": "array", "items": {"type": "string"}}, 3, "`x` must be a list of texts, got an integer"),
        ({"type": "array"}, {}, "`x` must be a list, got a mapping"),
        ({"type": "number"}, SECRET, "`x` must be a number, got text"),
        ({"type": ["integer", "null"]}, 1.5, "`x` must be an integer or null, got a number"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, SECRET, "`x` must be true or false or null, got text"),
        ({"anyOf": [{"type": "integer", "minimum": 5}, {"type": "null"}]}, 3, "`x` must satisfy anyOf"),
        ({"type": "object", "properties": {"y": {"type": "string"}}}, {"y": None}, "`x.y` must be text, got null"),
        ({"type": "object", "required": ["y", "z"]}, {}, "`x.y` is missing; `x.z` is missing"),
        ({"type": "object", "additionalProperties": False}, {"y": SECRET}, "`x.y` is not a parameter"),
        ({"enum": ["a", "b"]}, SECRET, "`x` must be one of the allowed values"),
        ({"maximum": 5}, 6, "`x` must be at most 5"),
        ({"pattern": "^z"}, SECRET, "`x` must satisfy pattern"),
    ],
)
def test_what_does_not_fit_is_said_in_words(schema: dict[str, Any], value: Any, says: str) -> None:
    with pytest.raises(InvalidDecision) as caught:
        check_fits({"x": value}, {"type": "object", "properties": {"x": schema}}, "arguments")
    assert str(caught.value) == f"arguments do not fit the schema: {says}"


def test_an_answer_does_not_fit() -> None:
    with pytest.raises(
        InvalidDecision, match="the answer does not fit the schema: the answer must be an integer, got text"
    ):
        check_fits("many", {"type": "integer"}, "the answer")
