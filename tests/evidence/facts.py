"""Generated recipients, links, amounts and paths, each read by Assentry and by standard parsers: ours is never the
kinder reading.

The generators and the judges are those of `tests/core/test_kinder_readings.py`. A judge is a pure function that says
what is wrong with our reading of one text, or nothing.
"""

import ipaddress
import posixpath
import random
import time
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from email import errors as mail_errors
from email.headerregistry import HeaderRegistry
from email.utils import getaddresses
from urllib.parse import unquote, urlsplit

from assentry.core import facts as derived
from assentry.core import link_text, money_text, place_text, recipient_text
from assentry.core.facts import fact_view, facts_of
from assentry.core.recipient_text import Whom
from tests.evidence import planted
from tests.evidence.outcome import Control, Outcome
from tests.evidence.processes import Say, answer, fork, listen

OURS = "ours.example"
EVIL = "evil.example"
LANES = 2
BATCH = 1_000
TOLD = 5
Dice = random.Random
_HEADERS = HeaderRegistry()


def _pick(dice: Dice, words: str, sep: str = " ") -> str:
    return dice.choice(words.split(sep))


def _mixed(dice: Dice, text: str, junk: str) -> str:
    """`text`, now and then with something that does not belong there."""
    for _ in range(dice.choice((0, 0, 0, 0, 1, 1, 2))):
        spot = dice.randint(0, len(text))
        text = text[:spot] + dice.choice(junk) + text[spot + dice.choice((0, 0, 1)) :]
    return text


_JUNK = " ,;:<>\"'()[]@\\/|%=?#!.\n\t\u200b\u3002\uff20\u0430\0"


def a_recipient(dice: Dice) -> str:
    def mailbox() -> str:
        host = dice.choice((OURS, OURS, OURS, EVIL, f"{EVIL}.{OURS}", f"{OURS}.{EVIL}", "[10.0.0.1]", "[IPv6:::1]"))
        local = _pick(dice, 'ann x y.z a+b o\'neil "a,b" "x@evil.example" a%evil.example -oQ all')
        address = f"{local}{_pick(dice, '@|@|@|@| @ |@@|＠', '|')}{host}{_pick(dice, '|||.|:25', '|')}"
        name = _pick(
            dice,
            '|||Ann Lee|"Lee, Ann"|"\\""|Lee, Ann|x@evil.example|=?utf-8?q?x=40evil.example?=|(x@evil.example)',
            "|",
        )
        return f"{name} <{address}>" if name or dice.random() < 0.2 else address

    form = dice.randrange(12)
    if form == 0:
        text = f"team: {mailbox()}, {mailbox()};"
    elif form == 1:
        text = f"mailto:ann@{OURS}?{_pick(dice, 'cc bcc to')}={mailbox()}"
    elif form == 2:
        text = _pick(dice, "all-staff #general Bob +15551234 evil.example //evil.example")
    elif form == 3:
        text = f"ann@{OURS}{_pick(dice, chr(13) + chr(10) + 'Bcc: |' + chr(10) + 'Cc:|' + chr(0x2028) + '| ', '|')}{mailbox()}"
    else:
        text = _pick(dice, ", |; |,|\n", "|").join(mailbox() for _ in range(dice.choice((1, 1, 1, 2, 3))))
    text = dice.choice(("", "", "", " " * 40)) + text
    return _mixed(dice, text, _JUNK)


def _standard_recipients(text: str) -> set[str]:
    """Every address that a parser of the standard library finds in the text."""
    found: set[str] = set()
    try:
        found |= {address for _, address in getaddresses([text])}
        found |= {address for _, address in getaddresses([text], strict=False)}  # type: ignore[call-arg]
    except TypeError:
        pass  # a Python without the argument reads as the second one does
    if "\r" not in text and "\n" not in text:
        try:
            header = _HEADERS("to", text)
            found |= {each.addr_spec for each in header.addresses}
        except (mail_errors.MessageError, ValueError, IndexError, AttributeError, TypeError):
            pass
    return {address.lower() for address in found if "@" in address}


def _is_ours(host: str) -> bool:
    host = host.lower().rstrip(".")
    return host == OURS or host.endswith("." + OURS)


def judged_recipient(text: str) -> str:
    view = fact_view(facts_of("send_note", {"to": text, "body": "h"}, domains=(OURS,)))
    if view.get("external") != 0:
        return ""
    mine = set(view.get("recipients", ()))
    for address in _standard_recipients(text):
        if not _is_ours(address.rpartition("@")[2]):
            return f"{text!r}: nobody is outside, and a standard parser finds {address!r}"
        if address.rstrip(".") not in mine:
            return f"{text!r}: read as {sorted(mine)}, and a standard parser finds {address!r}"
    if f"@{EVIL}" in text.replace(f"@{EVIL}.{OURS}", "") or "=?" in text:
        return f"{text!r}: nobody is outside, and it names {EVIL}, or may in words that are encoded"
    if "@" not in text and "://" not in text and text.strip():
        return f"{text!r}: nobody is outside, and it is no address"
    return ""


def a_link(dice: Dice) -> str:
    scheme = _pick(dice, "https:// https:// https:// http:// HTTPS:// https:/\\ https:\\\\ https:/ https: ws://")
    hosts = (
        OURS,
        OURS,
        EVIL,
        f"{EVIL}.{OURS}",
        f"{OURS}.{EVIL}",
        "[::ffff:10.0.0.1]",
        "2130706433",
        f"{'a.' * 120}{OURS}.{EVIL}",
    )
    user = dice.choice(("", "", "", f"{OURS}@", f"{EVIL}@", f"{OURS}:80@", "u:p@", f"{OURS}\\@", f"{EVIL}\\@"))
    port = dice.choice(("", "", ":443", ":80@" + OURS, ":x"))
    rest = dice.choice(
        ("", "/", f"/@{OURS}", f"?q=y@{OURS}", f"#@{OURS}", f"\\.{OURS}/", f"%2f.{OURS}", f";.{OURS}", f"/../{EVIL}")
    )
    return _mixed(dice, f"{scheme}{user}{dice.choice(hosts)}{port}{rest}", _JUNK.replace("\n", ""))


def _standard_hosts(link: str) -> set[str]:
    """Where the standard library, and a browser that takes a backslash for a slash, go."""
    hosts: set[str] = set()
    stripped = "".join(char for char in link if char not in "\t\r\n").strip("".join(map(chr, range(33))))
    scheme, _, rest = stripped.partition(":")
    browser = f"{scheme}://" + rest.replace("\\", "/").lstrip("/")
    for each in (link, stripped, browser):
        try:
            host = urlsplit(each).hostname
        except ValueError:
            continue
        if host:
            hosts.add(host)
    return hosts


def judged_link(link: str) -> str:
    facts = facts_of("send_hook", {"to": link, "body": "h"}, domains=(OURS,))
    view = fact_view(facts)
    hosts = _standard_hosts(link)
    if view.get("external") == 0:
        strange = [host for host in hosts if not _is_ours(host)]
        if strange or (not hosts and "://" in link):
            return f"{link!r}: nobody is outside, and a standard parser goes to {strange or 'nowhere'}"
        for host in hosts:
            try:
                ipaddress.ip_address(host)
            except ValueError:
                continue
            return f"{link!r}: nobody is outside, and it leads to the number {host}"
    found = {fact.name: fact for fact in facts}
    whole = [str(host) for host in found["links"].value] if "links" in found else []
    told = whole + [host.rpartition(":")[0] for host in whole]
    if urlsplit_is_plain(link) and not (found.get("links") and found["links"].hurts):
        for host in hosts:
            host = host.rstrip(".,;:!*_`)}")
            if host and host not in told:
                return f"{link!r}: its links are {told}, none of them alarming, and a standard parser goes to {host}"
    return ""


def urlsplit_is_plain(link: str) -> bool:
    """A whole link, as it would stand in a text."""
    return (
        link.lower().startswith(("http://", "https://"))
        and link.isascii()
        and link.isprintable()
        and not set(link) & set(" <>\"'")
    )


def an_amount(dice: Dice) -> str:
    digits = dice.choice(("5", "12", "250", "1000", "1234567", "0"))
    mark, other = _pick(dice, ", . ' _"), _pick(dice, ", .")
    groups = mark.join([str(dice.randint(1, 999)), *(f"{dice.randint(0, 999):03}" for _ in range(dice.randint(0, 3)))])
    text = dice.choice(
        (digits, groups, f"{dice.randint(0, 9)}{mark}{dice.randint(10, 99)}{mark}{dice.randint(0, 999):03}")
    )
    text += dice.choice(("", "", other + "".join(dice.choice("0123456789") for _ in range(dice.randint(1, 5)))))
    text = dice.choice(
        (text, text, text, f"-{text}", f"({text})", f"{text}-", f"{text}e{dice.randint(0, 7)}", f"\u2212{text}")
    )
    text = dice.choice(
        (
            text,
            text,
            text,
            f"€{text}",
            f"€ {text}",
            f"{text} EUR",
            f"EUR {text}",
            f"{text}k",
            f"{text} million",
            f"€{text}M",
        )
    )
    if dice.random() < 0.1:
        text = text.translate({ord("0") + n: dice.choice((0xFF10, 0x0660, 0x06F0)) + n for n in range(10)})
    return _mixed(dice, text, " ,.'-_\u00a0\u202f") if dice.random() < 0.2 else text


def _standard_amounts(text: str) -> set[Decimal]:
    """What programs that take a point, a comma, or both for a mark of thousands make of the text."""
    bare = text.strip().strip("()").removesuffix("EUR").removeprefix("EUR").removeprefix("€").strip()
    bare = bare.strip("-\u2212 ").rstrip(".,")
    factor = 1
    for suffix, times in (("million", 10**6), ("M", 10**6), ("k", 10**3)):
        if bare.endswith(suffix):
            bare, factor = bare.removesuffix(suffix).strip(), times
    for blank in "'_ \u00a0\u202f":
        bare = bare.replace(blank, "")
    whole, mark, power = bare.partition("e")
    readings = {whole}
    dots, commas = whole.count("."), whole.count(",")
    last = max(whole.rfind("."), whole.rfind(","))
    if dots + commas == 1 and len(whole) - last == 4:
        readings = {whole.replace(",", "."), whole.replace(",", "").replace(".", "")}
    elif dots + commas == 1:
        readings = {whole.replace(",", ".")}
    elif dots and commas:
        readings = {whole[:last].replace(",", "").replace(".", "") + "." + whole[last + 1 :]}
        if len(whole) - last == 4 and whole.count(whole[last]) == 1:
            readings.add(whole.replace(",", "").replace(".", ""))
    elif dots + commas > 1:
        readings = {whole.replace(",", "").replace(".", "")}
    found = set()
    for reading in readings:
        try:
            number = Decimal(reading + mark + power) * factor
        except InvalidOperation:
            continue
        if number.is_finite():
            found.add(abs(number))
    return found


def judged_amount(text: str) -> str:
    facts = {fact.name: fact for fact in facts_of("pay_bill", {"amount": text})}
    if "amount" not in facts or "amount" in (facts["unreadable"].value if "unreadable" in facts else ()):
        return (
            "" if "unreadable" in facts or not text.strip() else f"{text!r}: no amount, and none that could not be read"
        )
    mine = Decimal(str(facts["amount"].value))
    standard = _standard_amounts(text)
    if standard and mine < max(standard) * Decimal("0.999999999"):
        return f"{text!r}: judged as {mine}, and it can be read as {max(standard)}"
    if len(standard) > 1 and "two ways" not in facts["amount"].says:
        return f"{text!r}: told as {facts['amount'].says!r}, and it can be read as {sorted(standard)}"
    if mine > 0 and not set(facts["amount"].says) & set("123456789"):
        return f"{text!r}: shown as {facts['amount'].says!r}, and it is more than nothing"
    return ""


def a_path(dice: Dice) -> str:
    goal = _pick(dice, "etc/passwd etc usr/bin/x root/.ssh/id_rsa docs/a.md notes.txt")
    start = dice.choice(("", "", "/", "//", "./", "../", "a/../../", "a/./../", "~/", "~root/", "file:///", "file:/", "FILE://localhost/",
                         "/./", "/tmp/../", "a/b/../../../", ".. /", "/x/" + "../" * 300, "-rf ", "a.txt,/", "a\n/", "a:/"))  # fmt: skip
    path = start + goal
    for _ in range(dice.choice((0, 0, 1, 2, 3))):
        path = dice.choice((path.replace("/", "\\"), path.replace(".", "%2e"), path.replace("/", "%2F"), path.replace("%", "%25"),
                            path.replace("/", "//"), " " + path, path + "\n", path.replace(".", "\uff0e")))  # fmt: skip
    return _mixed(dice, path, " .\0\u200b") if dice.random() < 0.15 else path


def judged_path(path: str) -> str:
    facts = facts_of("touch_file", {"path": path})
    if any(fact.name == "paths" and fact.hurts for fact in facts) or not path.strip():
        return ""
    readings = {path, path.strip()}
    for _ in range(4):
        readings |= {unquote(each) for each in readings}
    readings |= {each.replace("\\", "/") for each in readings}
    readings |= {urlsplit(each).path for each in readings if each.lower().startswith("file:") and "[" not in each}
    for each in readings:
        plain = posixpath.normpath(each.replace("//", "/"))
        if f"{plain.lower()}/".startswith(("/etc/", "/usr/", "/root/")):
            return f"{path!r}: nothing is alarming, and it leads to {plain!r}"
        if ".." in each.split("/"):
            return f"{path!r}: nothing is alarming, and it climbs"
        if each.startswith("-"):
            return f"{path!r}: nothing is alarming, and it may be an option"
        if "\0" in each:
            return f"{path!r}: nothing is alarming, and it ends early"
    return ""


KINDS: dict[str, tuple[Callable[[Dice], str], Callable[[str], str]]] = {
    "recipients": (a_recipient, judged_recipient),
    "links": (a_link, judged_link),
    "amounts": (an_amount, judged_amount),
    "paths": (a_path, judged_path),
}


def compared(kind: str, seed: int, number: int) -> list[str]:
    """What is wrong with our readings of so many texts."""
    dice, (make, judge) = random.Random(f"{kind} {seed}"), KINDS[kind]
    return [f"{count + 1}: {wrong}" for count in range(number) if (wrong := judge(make(dice)))]


def read(seed: int, batches: range, size: int, say: Say, plant: Callable[[], None] = lambda: None) -> None:
    """Batches of every kind, one after the other; what was found in each is said."""
    plant()
    for batch in batches:
        for kind in KINDS:
            wrong = compared(kind, seed + batch, size)
            say("batch", kind=kind, cases=size, missed=len(wrong), first=[f"{kind} {each}" for each in wrong[:TOLD]])
    say("answer")


def lists_read_loosely() -> None:
    """Of what is written in a list of recipients, the last address counts, as if it were read in one way only."""
    loosely = recipient_text.addresses_in
    careless = lambda text: Whom(loosely(text)[-1:])  # noqa: E731
    derived.Look.recipients.__globals__["whom_in"] = careless


def what_stands_behind_an_at_is_the_host() -> None:
    """A link leads to whatever stands behind its last @."""
    behind = lambda link: link.rpartition("@")[2].partition("/")[0] or link_text.host_of(link)  # noqa: E731
    planted.swap(recipient_text, "host_of", behind)


def points_part_decimals() -> None:
    """A point always stands before decimals."""
    numbers = money_text.numbers_in
    planted.swap(money_text, "numbers_in", lambda text: numbers(text)[-1:])


def percent_signs_are_not_read() -> None:
    """A path is looked at as it is written, in percent signs or not."""
    planted.swap(place_text, "_readings", lambda path: [path])


def names_are_ours() -> None:
    """Whoever is no address is taken for one of ours."""
    derived.Look.recipients.__globals__["kinds"].is_acted_on = lambda *_: True
    over_all = derived.Look.over_all
    planted.swap(
        derived.Look, "over_all", lambda self, **known: (setattr(self, "unplaced", False), over_all(self, **known))[1]
    )


PLANTED = (
    lists_read_loosely, what_stands_behind_an_at_is_the_host, points_part_decimals, percent_signs_are_not_read, names_are_ours,
)  # fmt: skip


def run(seed: int, cases: int, progress: Callable[[str], None]) -> Outcome:
    size = min(BATCH, cases)
    count = max(1, cases // size)
    outcome = Outcome(
        "facts",
        "generated recipients, links, amounts and paths beside standard parsers: never the kinder reading",
        ("I21",),
        seed,
        sizes={f"{kind}": count * size for kind in KINDS},
        bounds={"texts of a batch": size, "seed of batch n": "seed + n"},
    )
    began = time.monotonic()
    lanes = [
        fork(f"lane {lane}", lambda say, lane=lane: read(seed, range(lane, count, LANES), size, say))  # type: ignore[misc]
        for lane in range(min(LANES, count))
    ]

    def look() -> bool:
        done = sum(one["cases"] for lane in lanes for one in lane.said("batch"))
        progress(f"{done}/{len(KINDS) * count * size} texts")
        return any(lane.said("crash") for lane in lanes)

    listen(lanes, time.monotonic() + 120 + cases / 20, look)
    for lane in lanes:
        for one in lane.end():
            if one["what"] == "batch":
                outcome.take({one["kind"]: one["cases"], "kinder readings": one["missed"]}, one["first"])
            elif one["what"] == "crash":
                outcome.wrong.append(one["trace"])
    if sum(outcome.figures.get(kind, 0) for kind in KINDS) < len(KINDS) * count * size and not outcome.wrong:
        outcome.wrong.append("it did not come to its end in time")
    outcome.controls = [_control(seed, plant) for plant in PLANTED]
    outcome.seconds = time.monotonic() - began
    return outcome


def _control(seed: int, plant: Callable[[], None]) -> Control:
    name, means = plant.__name__.replace("_", " "), (plant.__doc__ or "").strip()
    child = fork("control", lambda say: read(seed, range(1), 400, say, plant))
    answer(child, within=300)
    child.end()
    first = next((text for one in child.said("batch") for text in one["first"]), "")
    after = int(first.split()[1].rstrip(":")) if first else None
    return Control(name, means, bool(first), after, first)
