"""Amounts of money in fields and in prose: read, compared and written the way people write them."""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from assent.core.action import Json

_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₿": "BTC"}
_WORDS = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP", "pounds": "GBP"}
_SIGN_OF = {code: sign for sign, code in _SYMBOLS.items()}
CODES = frozenset(
    """EUR USD GBP JPY CHF SEK NOK DKK PLN CZK HUF AUD CAD NZD CNY INR BRL MXN ZAR SGD HKD KRW TRY ILS AED BTC
    ETH""".split()
)
_MONEY = re.compile(
    r"(?P<sign>[€$£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY)\b)\s?(?P<a>\d(?:[\d.,']{0,24}\d)?)(?P<ak>[kKmM]\b)?"
    r"|(?P<b>\d(?:[\d.,']{0,24}\d)?)\s?(?P<unit>€|£|\b(?:EUR|USD|GBP|CHF|JPY|euros?|dollars?|pounds?)\b)"
)
_PROMISE = re.compile(
    r"\b(?:refund|credit|pay|paid|reimburs|compensat|discount|rebate|waiv|offer|voucher|gift|grant|give|send|transfer"
    r"|settle|owe|bonus|cash ?back)",
    re.I,
)
_HINTS = ("€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF", "dollar", "euro", "pound")
_MOST_PROMISES = 20
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n")
_LARGEST = Decimal(10) ** 300


@dataclass(frozen=True, slots=True)
class Money:
    """An amount and its currency, which is empty where nothing names one."""

    amount: Decimal
    currency: str = ""

    def __str__(self) -> str:
        number = f"{self.amount:,.2f}"
        sign = _SIGN_OF.get(self.currency)
        if sign is not None:
            return f"{sign}{number}"
        return f"{number} {self.currency}" if self.currency else number


def decimal_of(text: str) -> Decimal | None:
    """The number in `text`, whether its decimals follow a point or a comma; nothing if it is not one number."""
    kept = text.strip().replace("'", "").replace("\u00a0", "").replace(" ", "").rstrip(".,")
    point, comma = kept.rfind("."), kept.rfind(",")
    if point >= 0 and comma >= 0:
        kept = kept.replace(",", "") if point > comma else kept.replace(".", "").replace(",", ".")
    elif comma >= 0:
        decimals = len(kept) - comma - 1
        kept = kept.replace(",", ".") if kept.count(",") == 1 and decimals != 3 else kept.replace(",", "")
    elif kept.count(".") > 1:
        kept = kept.replace(".", "")
    try:
        number = Decimal(kept)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _LARGEST else None


def money_of(value: Json) -> Money | None:
    """The money in a field made for it: a number, a text such as `€1,200` or `1200 EUR`, or a tagged value."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            number = decimal_of(repr(value)) if abs(value) < 10**300 else None
            return None if number is None else Money(number)
        case str() if len(value) <= 64:
            return _written(value)
        case {"$decimal": str(text)} | {"$int": str(text)}:
            number = decimal_of(text) if len(text) <= 320 else None
            return None if number is None else Money(number)
    return None


def currency_of(value: Json) -> str:
    """The currency code that `value` names, or nothing."""
    if not isinstance(value, str):
        return ""
    text = value.strip()
    return _SYMBOLS.get(text) or _WORDS.get(text.lower()) or (text.upper() if text.upper() in CODES else "")


def _written(text: str) -> Money | None:
    found = _MONEY.search(text)
    if found is not None:
        return _found(found)
    bare, currency = text.strip(), ""
    if bare[-3:].upper() in CODES:
        bare, currency = bare[:-3], bare[-3:].upper()
    elif bare[:3].upper() in CODES:
        bare, currency = bare[3:], bare[:3].upper()
    number = decimal_of(bare) if bare else None
    return None if number is None else Money(number, currency)


def _found(found: re.Match[str]) -> Money | None:
    number = decimal_of(found["a"] or found["b"])
    if number is None:
        return None
    factor = {"k": 1_000, "m": 1_000_000}.get((found["ak"] or "").lower(), 1)
    mark = found["sign"] or found["unit"]
    return Money(number * factor, currency_of(mark))


def promised_in(text: str) -> tuple[Money, ...]:
    """Amounts that a sentence of `text` promises to somebody: refunded, credited, paid, offered."""
    if not any(hint in text for hint in _HINTS) or not _PROMISE.search(text):
        return ()
    promises: dict[Money, None] = {}
    for found in _MONEY.finditer(text):
        if len(promises) >= _MOST_PROMISES:
            break
        before = _SENTENCE_END.split(text[max(0, found.start() - 120) : found.start()])[-1]
        after = _SENTENCE_END.split(text[found.end() : found.end() + 80])[0]
        money = _found(found)
        if money is not None and (_PROMISE.search(before) or _PROMISE.search(after)):
            promises[money] = None
    return tuple(promises)
