"""What a search looks at: words, in the same form in the index and in what somebody typed.

Both databases are handed words that are already split and folded, so that they agree, and so that nothing typed into
a search is ever read as an operator: what is left of it are letters and digits.
"""

import re
import unicodedata
from collections.abc import Iterable

MOST_WORDS = 12
"""Of what somebody typed, so many count."""
_CHARACTERS = 1000
_LONGEST = 40
_WORD = re.compile(
    # Scripts without spaces are found by their single characters.
    "[\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
    "|[^\\W_\u2e80-\u2fff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_MARK = "\u00b7"
"""No letter, so that no word begins with it."""
SAMPLED = 64
"""One request in so many stands in the index twice, with its words marked: how many fit is known from those."""


def words(text: str) -> tuple[str, ...]:
    """The different words of `text`, without case: split at everything that is neither a letter nor a digit."""
    text = text[:_CHARACTERS]
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)[: 2 * _CHARACTERS]
    # The dot that is left over of a capital İ divides no word.
    folded = text.casefold().replace("\u0307", "")
    return tuple(dict.fromkeys(word[:_LONGEST] for word in _WORD.findall(folded)))


def searchable(request_id: str, *texts: str) -> str:
    """The words of these texts as the databases hold them, each after a space."""
    found = tuple(dict.fromkeys(word for text in texts for word in words(text)))
    if is_sampled(request_id):
        found += marked(found)
    return "".join(f" {word}" for word in found)


def is_sampled(request_id: str) -> bool:
    """Whether it is one of those that stand for many. Ids end at random."""
    try:
        return int(request_id[-2:], 16) % SAMPLED == 0
    except ValueError:
        return False


def marked(found: Iterable[str]) -> tuple[str, ...]:
    """The words as they stand in the index for those that stand for many."""
    return tuple(_MARK + word for word in found)


def typed(text: str) -> tuple[str, ...]:
    """The words somebody looks for."""
    return words(text)[:MOST_WORDS]
