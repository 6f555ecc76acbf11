"""Amounts of money in fields and in prose: read, compared and written the way people write them."""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from assentry.core.action import Json

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
_PLAIN = re.compile(r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?")
_GROUPED = re.compile(
    r"(?P<whole>\d{1,3}(?P<mark>[,.' ])\d{3}(?:(?P=mark)\d{3})*|\d{1,2}(?:,\d{2})+,\d{3})"
    r"(?:(?!(?P=mark))[.,](?P<decimals>\d+))?"
    r"|(?P<short>\d+),(?P<few>\d{1,2})"
)
"""Thousands stand in groups, all parted by one mark: what is parted in another way is more than one number."""
_MINUS = frozenset("-\u2212\u2013")
_BESIDE = frozenset({"", "US", "CA", "AU", "NZ", "HK", "A", "C", *CODES})
"""What may stand beside a sum and its sign without saying that it is another sum."""


_WHOLE = frozenset("JPY KRW VND CLP ISK PYG UGX XAF XOF XPF BTC ETH".split())
"""Currencies in which sums are not written with two decimals; the digits that are given are shown in all of them."""
_MOST_DECIMALS = 18


@dataclass(frozen=True, slots=True)
class Money:
    """An amount and its currency, which is empty where nothing names one."""

    amount: Decimal
    currency: str = ""

    def __str__(self) -> str:
        number = _digits(self.amount.copy_abs(), 0 if self.currency in _WHOLE else 2)
        minus = "-" if self.amount < 0 else ""
        sign = _SIGN_OF.get(self.currency)
        if sign is not None:
            return f"{minus}{sign}{number}"
        number = minus + number
        return f"{number} {self.currency}" if self.currency else number


def _digits(number: Decimal, least: int) -> str:
    """Every digit that is given, with at least so many decimals; what is too small for them, by its power of ten."""
    if 0 < number < Decimal(10) ** (1 - _MOST_DECIMALS):
        return f"{number:.2E}"
    whole, _, decimals = f"{number:,f}".partition(".")
    if len(decimals) > _MOST_DECIMALS:
        whole, _, decimals = f"{number:,.{_MOST_DECIMALS}f}".partition(".")
    decimals = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{decimals}" if decimals else whole


def decimal_of(text: str) -> Decimal | None:
    """The number in `text`, whether its decimals follow a point or a comma; nothing if it is not one number."""
    kept = text.strip().replace("\u00a0", " ").replace("\u202f", " ").rstrip(".,")
    sign, bare = ("-", kept[1:].lstrip()) if kept[:1] in _MINUS else ("", kept.removeprefix("+"))
    if _PLAIN.fullmatch(bare) is None:
        grouped = _GROUPED.fullmatch(bare)
        if grouped is None:
            return None
        whole, decimals = grouped["whole"] or grouped["short"], grouped["decimals"] or grouped["few"] or ""
        bare = re.sub(r"\D", "", whole) + ("." + decimals if decimals else "")
    try:
        number = Decimal(sign + bare)
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
        case Decimal():
            return Money(value) if value.is_finite() and abs(value) < _LARGEST else None
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
        around = (text[: found.start()] + " " + text[found.end() :]).strip()
        money = _found(found) if around.strip(" \t+-\u2212\u2013().,").upper() in _BESIDE else None
        below = around[:1] == "(" or not _MINUS.isdisjoint((around[:1], around[-1:]))
        return Money(money.amount.copy_negate(), money.currency) if money is not None and below else money
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
