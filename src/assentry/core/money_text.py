"""Amounts of money in fields and in prose: read, compared and written the way people write them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from assentry.core.action import Json

_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₿": "BTC"}
_WORDS = {"euro": "EUR", "euros": "EUR", "dollar": "USD", "dollars": "USD", "pound": "GBP", "pounds": "GBP"}
_SIGN_OF = {code: sign for sign, code in _SYMBOLS.items()}
CODES = frozenset(
    """EUR USD GBP JPY CHF SEK NOK DKK PLN CZK HUF AUD CAD NZD CNY INR BRL MXN ZAR SGD HKD KRW TRY ILS AED BTC
    ETH""".split()
)
_WRITTEN = CODES | frozenset("XAU XAG XPT XPD KWD BHD OMR JOD TND VND CLP ISK RON THB IDR MYR PHP TWD SAR UAH".split())
"""Those that may stand beside a number; of a field's name they may be plain words."""
_SCALE = (
    r"k|thousand|tsd|tausend|lakhs?|m|mm|mn|mio|millions?|millionen|crores?|bn|b|billions?|mrd|milliarden?|trillions?"
)
_SCALES = {"k": 10**3, "t": 10**3, "l": 10**5, "m": 10**6, "c": 10**7, "b": 10**9, "mr": 10**9, "tr": 10**12}
_NUMBER = r"(?:\d{1,3}(?:[ \u00a0\u202f\u2009]\d{3}){1,20}(?!\d)(?:[.,]\d{1,20}(?!\d))?|\d(?:[\d.,'\u2019]{0,60}\d)?)"
_SIGN = r"[€$£¥₹]|\b(?:EUR|USD|GBP|CHF|JPY)\b"
_UNIT = r"€|£|\b(?:EUR|USD|GBP|CHF|JPY|(?i:euros?|dollars?|pounds?))\b"
_MONEY = re.compile(
    rf"(?P<sign>{_SIGN})\s?(?P<a>(?>{_NUMBER}))(?:\s?(?P<ak>(?i:{_SCALE}))\b)?"
    rf"|(?<!\d)(?<!\d[.,'])(?P<b>(?>{_NUMBER}))(?:\s?(?P<bk>(?i:{_SCALE})))?\s?(?P<unit>{_UNIT})"
)
_TOO_LONG = re.compile(r"\d[\d.,'\u2019]{60}")
_PROMISE = re.compile(
    r"\b(?:refund|credit|pay|paid|reimburs|compensat|discount|rebate|waiv|offer|voucher|gift|grant|give|send|transfer"
    r"|settle|owe|bonus|cash ?back)",
    re.I,
)
_HINT = re.compile(r"[€$£¥₹]|EUR|USD|GBP|CHF|JPY|dollar|euro|pound", re.I)
_MOST_PROMISES = 50
_SENTENCE_END = re.compile(r"[.!?](?:\s|$)|\n")
_LARGEST = Decimal(10) ** 300
_PLAIN = re.compile(r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?")
_GROUPED = re.compile(
    r"(?P<whole>\d{1,3}(?P<mark>[,.' ])\d{3}(?:(?P=mark)\d{3})*)(?:(?!(?P=mark))[.,](?P<decimals>\d+))?"
    r"|(?P<indian>\d{1,2}(?:,\d{2})+,\d{3})(?:\.(?P<rest>\d+))?"
    r"|(?P<short>\d+),(?P<few>\d{1,2})"
)
"""Thousands stand in groups, all parted by one mark: what is parted in another way is more than one number."""
_POWER = re.compile(r"([^eE]*)((?:[eE].*)?)", re.S)
_MINUS = frozenset("-\u2212\u2013\uff0d\ufe63")
_MARKS = str.maketrans(
    {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u2019": "'", "\uff07": "'", "\u066c": "'", "\u066b": ".",
     "\uff0e": ".", "\uff0c": ",", "\uff08": "(", "\uff09": ")"}
)  # fmt: skip
_DOLLARS = {"US": "USD", "CA": "CAD", "C": "CAD", "AU": "AUD", "A": "AUD", "NZ": "NZD", "HK": "HKD"}
_SHARED = {"$": frozenset("USD CAD AUD NZD HKD SGD MXN BRL TWD CLP".split()), "¥": frozenset({"JPY", "CNY"})}
"""Signs that more than one currency is written with."""


_WHOLE = frozenset("JPY KRW VND CLP ISK PYG UGX XAF XOF XPF BTC ETH".split())
"""Currencies in which sums are not written with two decimals; the digits that are given are shown in all of them."""
_MOST_DECIMALS = 18


@dataclass(frozen=True, slots=True)
class Money:
    """An amount and its currency, which is empty where nothing names one."""

    amount: Decimal
    currency: str = ""
    other: Decimal | None = None
    """The smaller of the two numbers that it can be read as, where it can be."""

    def __str__(self) -> str:
        shown = self._shown(self.amount)
        return shown if self.other is None else f"{shown} or {self._shown(self.other)}"

    def _shown(self, amount: Decimal) -> str:
        number = _digits(amount.copy_abs(), 0 if self.currency in _WHOLE else 2)
        minus = "-" if amount < 0 else ""
        sign = _SIGN_OF.get(self.currency)
        if sign is not None:
            return f"{minus}{sign}{number}"
        number = minus + number
        return f"{number} {self.currency}" if self.currency else number

    def scaled(self, factor: Decimal | int) -> "Money":
        return self if factor == 1 else self._each(lambda number: number * factor)

    def divided(self, divisor: Decimal) -> "Money":
        # A division rounds to 28 digits.
        return self if divisor == 1 else self._each(lambda number: number / divisor)

    def negated(self) -> "Money":
        return self._each(Decimal.copy_negate)

    def _each(self, change: Callable[[Decimal], Decimal]) -> "Money":
        return Money(change(self.amount), self.currency, None if self.other is None else change(self.other))


def typed(number: float | Decimal) -> str:
    """The number as somebody types it: every digit that it has, and at least two behind the point."""
    whole, _, decimals = f"{Decimal(str(number)):f}".partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


def _digits(number: Decimal, least: int) -> str:
    """Every digit that is given, with at least so many decimals; what is too small for them, by its power of ten."""
    if 0 < number < Decimal(10) ** (1 - _MOST_DECIMALS):
        return f"{number:.2E}"
    whole, _, decimals = f"{number:,f}".partition(".")
    if len(decimals) > _MOST_DECIMALS:
        whole, _, decimals = f"{number:,.{_MOST_DECIMALS}f}".partition(".")
    decimals = decimals.rstrip("0").ljust(least, "0")
    return f"{whole}.{decimals}" if decimals else whole


def numbers_in(text: str) -> tuple[Decimal, ...]:
    """What the one number in `text` can be read as, the largest first; nothing if it is not one number.

    A point or a comma before exactly three digits may part thousands or decimals, so that there are two readings.
    """
    bare = text.strip().translate(_MARKS)
    below = bare[:1] == "(" and bare[-1:] == ")"
    bare = (bare[1:-1] if below else bare).strip().rstrip(".,")
    for at_end in (False, True):
        if bare[-1 if at_end else 0 :][:1] in _MINUS and not below and bare:
            below, bare = True, (bare[:-1] if at_end else bare[1:]).strip()
    bare = bare if below else bare.removeprefix("+")
    plain = _PLAIN.fullmatch(bare)
    grouped = None if plain else _GROUPED.fullmatch(bare)
    if grouped is not None:
        whole = grouped["whole"] or grouped["indian"] or grouped["short"]
        decimals = grouped["decimals"] or grouped["rest"] or grouped["few"] or ""
        texts = [re.sub(r"\D", "", whole) + ("." + decimals if decimals else "")]
        if not decimals and grouped["mark"] in (",", ".") and whole.count(grouped["mark"]) == 1:
            texts.append(whole.replace(",", "."))
    elif plain is not None:
        texts = [bare]
    else:
        return ()
    number, power = _POWER.fullmatch(bare).groups()  # type: ignore[union-attr]
    if number[-4:-3] in (".", ",") and number[-3:].isdecimal() and number.count(number[-4]) == 1:
        texts.append(re.sub(r"\D", "", number) + power)
    numbers = {number for each in texts if (number := _decimal(each)) is not None}
    return tuple(sorted((-each if below else each for each in numbers), key=abs, reverse=True))


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number) < _LARGEST else None


def money_of(value: Json) -> Money | None:
    """The money in a field made for it: a number, a text such as `€1,200` or `1200 EUR`, or a tagged value."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            number = _decimal(repr(value)) if abs(value) < 10**300 else None
            return None if number is None else Money(number)
        case Decimal():
            return Money(value) if value.is_finite() and abs(value) < _LARGEST else None
        case str() if len(value) <= 64:
            return _written(value)
        case {"$decimal": str(text)} | {"$int": str(text)}:
            number = _decimal(text) if len(text) <= 320 and _PLAIN.fullmatch(text.removeprefix("-")) else None
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
        money = _found(found)
        currency = _named_beside(found["sign"] or found["unit"], around.strip(" \t+-\u2212\u2013().,").upper())
        if money is None or not currency or text[: found.start()].rstrip()[-1:] in (".", ","):
            return None
        money = replace(money, currency=currency)
        return money.negated() if around[:1] == "(" or not _MINUS.isdisjoint((around[:1], around[-1:])) else money
    bare, currency = text.strip(), ""
    if bare[-3:].upper() in _WRITTEN:
        bare, currency = bare[:-3], bare[-3:].upper()
    elif bare[:3].upper() in _WRITTEN:
        bare, currency = bare[3:], bare[:3].upper()
    return _money(numbers_in(bare), currency) if bare else None


def _named_beside(mark: str, beside: str) -> str:
    """The currency of a sum with this mark, and with this beside both; nothing where the two contradict each other."""
    currency = currency_of(mark)
    if beside in ("", currency):
        return currency
    named = _DOLLARS.get(beside, beside) if mark == "$" else beside
    return named if named in _SHARED.get(mark, ()) else ""


def _money(numbers: tuple[Decimal, ...], currency: str) -> Money | None:
    return Money(numbers[0], currency, numbers[1] if len(numbers) > 1 else None) if numbers else None


def _found(found: re.Match[str]) -> Money | None:
    money = _money(numbers_in(found["a"] or found["b"]), currency_of(found["sign"] or found["unit"]))
    scale = (found["ak"] or found["bk"] or "").lower()
    factor = _SCALES[scale[:2] if scale[:2] in _SCALES else scale[0]] if scale else 1
    return None if money is None else money.scaled(factor)


def promised_in(text: str) -> tuple[tuple[Money, ...], bool]:
    """Amounts that a sentence of `text` promises to somebody: refunded, credited, paid, offered; and whether that is
    all of them, each of them read."""
    if not _HINT.search(text) or not _PROMISE.search(text):
        return (), True
    promises: dict[Money, None] = {}
    complete = True
    for sentence in _SENTENCE_END.split(text):
        if not _HINT.search(sentence) or not _PROMISE.search(sentence):
            continue
        complete = complete and not _TOO_LONG.search(sentence)
        for found in _MONEY.finditer(sentence):
            money = _found(found)
            if money is None or len(promises) >= _MOST_PROMISES:
                complete = False
                break
            promises[money] = None
    return tuple(promises), complete
