"""The words inside an action's name: its verbs, the family each belongs to, and the nouns they act on.

Splitting and vocabulary only. What a verb with its noun means for the world is said in `catalogue` and
`classify`.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from assentry.core.action import Ordered

LONGEST_NAME = 400


class Family(Ordered):
    """What a verb does to the world, from mildest to gravest."""

    READ = "read"
    MAKE = "make"
    CREATE = "create"
    CHANGE = "change"
    TOUCH = "touch"
    START = "start"
    REPLACE = "replace"
    RUN = "run"
    REMOVE = "remove"
    SEND = "send"
    PAY = "pay"


_PLAIN: Mapping[Family, str] = {
    Family.READ: """
        get list read search find fetch show view describe lookup retrieve inspect browse check verify validate
        count summarize summarise analyze analyse compare preview peek explain explore diff whoami detect
        estimate calculate discover diagnose scan recommend suggest infer is has exists poll wait download
        export scrape crawl extract parse observe examine display locate geocode transcribe classify predict
        introspect enumerate ls cat grep tail stat pwd ask recall identify measure rank lint du wc look
        simulate recognize recognise aggregate reveal dump visit""",
    Family.MAKE: "generate compose draft render convert translate synthesize synthesise prepare",
    Family.CREATE: """
        create add insert append make register upload import clone copy duplicate init initialize initialise
        provision allocate attach save mkdir touch cp produce ingest enroll enrol mint bootstrap
        restore undelete unarchive push onboard""",
    Family.CHANGE: """
        update edit modify set change rename move patch configure assign unassign enable disable toggle mark
        reorder reprioritize upsert adjust apply resize scale rollback revert rebase unlock pause resume
        reschedule unsubscribe unfollow archive hide complete uncomplete reopen approve unapprove reject accept
        decline confirm dismiss connect disconnect login logout switch join leave mv migrate promote demote
        activate deactivate restart reboot stop suspend rotate sync grant protect unprotect mute unmute snooze
        normalize detach swap amend alter authenticate unstar unlike unpin unresolve stash increment
        decrement untag finalize finalise manipulate give reassign omit load install tune upgrade
        downgrade customize customise close mount unmount setup transfer allow bypass chmod chown elevate renew
        combine dedupe deduplicate signin shutdown""",
    Family.TOUCH: "click tap press hover drag swipe scroll navigate fill input interact keydown keyup",
    Family.START: """
        start launch trigger dispatch spawn retry rerun rebuild replay undo redo rollout""",
    Family.REPLACE: "write overwrite replace put rewrite",
    Family.RUN: "execute exec eval evaluate invoke manage operate perform",
    Family.REMOVE: """
        delete remove drop destroy erase wipe purge truncate clear uninstall unlink rm rmdir del kill terminate
        unregister deregister revoke discard trash prune expunge shred flush evict teardown reset
        cancel unpublish abort deprovision decommission obliterate nuke void offboard""",
    Family.SEND: """
        send reply forward notify publish broadcast share invite tweet retweet announce submit respond dm
        disclose resend dial""",
    Family.PAY: "pay purchase buy refund withdraw reimburse donate sell reserve repay disburse remit",
}
"""Words that are verbs wherever they stand."""

_EITHER: Mapping[Family, str] = {
    Family.READ: """
        query test trace audit profile watch plan think map match filter sort sample capture screenshot quote
        answer info status history head tree help details stats insights catalog logs guide guidelines
        instructions capabilities summary overview schema""",
    Family.MAKE: "design outline format embed record",
    Family.CREATE: "open fork commit comment store bookmark pull stage note log clip request report issue backup",
    Family.CHANGE: """
        tag label star pin lock schedule merge follow like subscribe resolve link rate block unblock release
        return ban flag index cache turn exchange""",
    Family.TOUCH: "type select uncheck",
    Family.START: "run build call process handle batch go deploy ship play",
    Family.RUN: "control",
    Family.REMOVE: "unset",
    Family.SEND: "post email mail message alert contact page chat mention",
    Family.PAY: "charge order book trade bid invest deposit tip booking rent checkout",
}
"""Words that are as often nouns (an order, a comment, a run): verbs only where no plain verb is found."""


def _vocabulary(table: Mapping[Family, str]) -> dict[str, Family]:
    return {word: family for family, words in table.items() for word in words.split()}


PLAIN_VERBS: Mapping[str, Family] = _vocabulary(_PLAIN)
EITHER_VERBS: Mapping[str, Family] = {
    word: family for word, family in _vocabulary(_EITHER).items() if word not in PLAIN_VERBS
}
VERBS: Mapping[str, Family] = {**EITHER_VERBS, **PLAIN_VERBS}
"""Every verb that Assentry knows and its family."""

_READS_THAT_ARE_NOUNS = frozenset("list search view check scan display preview".split())
_VERBS_THAT_ARE_NOUNS = frozenset(
    "draft refund tweet dm reply share transfer view check diff scan display preview purchase import export".split()
)
_JOINS = frozenset("or and then".split())
_PREPOSITIONS = frozenset("to from in into on onto by for with of at as via through within per using based".split())
_SMALL_WORDS = _PREPOSITIONS | _JOINS | frozenset("the a an my all new current this that tool it its".split())
_GLUED = tuple(sorted("delete create update remove destroy purge fetch search execute retrieve send".split(), key=len))

_IDIOMS = frozenset(
    {("get", "rid"), ("check", "out"), ("check", "in"), ("check", "off"), ("look", "after"), ("get", "even"),
     ("show", "door"), ("find", "replace"), ("search", "destroy"), ("is", "gone"), ("wait", "then")}
)  # fmt: skip
"""Verbs that do not mean what their first word says."""
_GRAVER = frozenset({Family.REPLACE, Family.RUN, Family.REMOVE, Family.SEND, Family.PAY, Family.CHANGE})
_TOLD_OF = frozenset(
    """status history detail info information log list count id option setting state job type result event policy
    schema template request rule preview progress report summary statistic stat metric queue record reason marker
    config configuration key token time date limit schedule plan window cost fee rate quote estimate method mode
    flag note invoice receipt link url protection permission candidate target candidate message error action run
    version release group point by""".split()
)
"""Ends of names that tell of something done (`get_transfer_status`) where others do it (`get_transfer_funds`)."""

_ACRONYM_PLURAL = re.compile(r"([A-Z]{2,})s(?![a-z])")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEGMENT = re.compile(r"__+|[./:\\#]+")
_GAP = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Name:
    """An action's name taken apart."""

    tokens: tuple[str, ...]
    """Every word, lower case, in order, the namespace first."""
    verbs: tuple[str, ...]
    """The verbs that say what is done; the leading one first. More than one when the name says `a or b`."""
    nouns: tuple[str, ...]
    """What it is done to, singular, the head noun last; nouns behind a preposition stand before."""

    family: Family | None = None
    """The gravest family among the verbs."""
    hides: bool = False
    """It begins like a read, and further words may say that it is none."""

    @property
    def verb(self) -> str | None:
        """The leading verb, if the name has one."""
        return self.verbs[0] if self.verbs else None


def words(text: str) -> tuple[str, ...]:
    """The words of an identifier in any casing, lower case: `listS3Buckets` gives list, s3, buckets."""
    plain = unicodedata.normalize("NFKC", text[:LONGEST_NAME])
    spaced = _HUMP.sub(" ", _ACRONYM_PLURAL.sub(lambda found: found[1].capitalize() + "s", plain))
    return tuple(word.lower() for word in _GAP.split(spaced) if word)


_IRREGULAR = {
    "person": "people", "child": "children", "man": "men", "woman": "women", "foot": "feet", "criterion": "criteria",
    "shelf": "shelves", "leaf": "leaves", "life": "lives", "half": "halves", "datum": "data",
}  # fmt: skip
_ONE_OF = {many: one for one, many in _IRREGULAR.items()}
_UNCOUNTED = frozenset("data information news metadata software equipment staff series species money".split())


def one_of(noun: str) -> str:
    """The word for one of what `noun` names, for counting; unlike `singular` it knows people and children."""
    if noun in _UNCOUNTED or not noun.islower():
        return noun
    return _ONE_OF.get(noun) or singular(noun)


def many_of(noun: str) -> str:
    """The word for several of what `noun` names, whether it stands in the singular or the plural."""
    one = one_of(noun)
    if one in _UNCOUNTED or not one.islower():
        return one
    if one in _IRREGULAR:
        return _IRREGULAR[one]
    if one.endswith("y") and one[-2:-1] not in "aeiou":
        return one[:-1] + "ies"
    return one + ("es" if one.endswith(("s", "x", "z", "ch", "sh")) else "s")


def singular(word: str) -> str:
    """The singular of an English noun, by ending; words that only look plural stay as they are."""
    if word == "ids":
        return "id"
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "news", "ias")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes", "zes", "dresses")):
        return word[:-2]
    return word[:-1]


@lru_cache(maxsize=4096)
def split_name(name: str) -> Name:
    """The verbs and nouns of `name`, whatever the style it is written in."""
    segments = [words(segment) for segment in _SEGMENT.split(name[:LONGEST_NAME])]
    segments = [_unglued(segment) for segment in segments if segment]
    if len(segments) > 1 and segments[0] == ("mcp",):
        segments = segments[1:]
    tokens = tuple(word for segment in segments for word in segment)
    for start in range(len(segments) - 1, -1, -1):
        spots = _verb_spots(segments[start])
        if spots:
            before = sum(len(segment) for segment in segments[:start])
            verbs = tuple(segments[start][spot] for spot in spots)
            family = max((VERBS[verb] for verb in verbs), key=lambda family: family.rank)
            hides = family is Family.READ and _hides(segments[start], spots)
            return Name(tokens, verbs, _nouns(tokens, before, spots), family, hides)
    return Name(tokens, (), _nouns(tokens, 0, ()))


def base_form(word: str) -> str | None:
    """The verb that `word` is a form of (`deletes`, `deleting`, `delete`), or nothing if it is none we know."""
    for guess in _guesses(word):
        if guess in VERBS:
            return guess
    return None


def _guesses(word: str) -> Iterable[str]:
    yield word
    if word.endswith("s"):
        yield word[:-1]
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("ing") and len(word) > 5:
        yield word[:-3]
        yield word[:-3] + "e"
        if word[-4] == word[-5]:
            yield word[:-4]


def _unglued(segment: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for word in segment for part in _parts(word))


def _parts(word: str) -> tuple[str, ...]:
    if len(word) < 8 or word in VERBS:
        return (word,)
    for verb in _GLUED:
        rest = word.removeprefix(verb)
        if rest != word and len(rest) >= 4 and not rest.startswith(("able", "d")):
            joined = rest.removeprefix("or")
            return (verb, "or", joined) if joined in PLAIN_VERBS else (verb, rest)
    return (word,)


def _verb_spots(segment: tuple[str, ...]) -> tuple[int, ...]:
    plain = [spot for spot, word in enumerate(segment) if word in PLAIN_VERBS]
    if not plain:
        return _either_spot(segment)
    lead, last = plain[0], len(segment) - 1
    spots = [lead]
    for spot in plain[1:]:
        joined = segment[spot - 1] in _JOINS
        pair = spot == last == lead + 1 and segment[spot] not in _VERBS_THAT_ARE_NOUNS
        lead_is_noun = pair and segment[lead] in _READS_THAT_ARE_NOUNS
        if joined or lead_is_noun:
            spots.append(spot)
    return tuple(spots)


def _hides(segment: tuple[str, ...], spots: tuple[int, ...]) -> bool:
    """The words after a reading verb may say that it does not end with reading."""
    lead = spots[0]
    if segment[lead : lead + 2] in _IDIOMS:
        return True
    for spot in range(lead + 1, len(segment)):
        word = segment[spot]
        if segment[spot - 1] in _JOINS and word not in _JOINS and VERBS.get(word) is not Family.READ:
            # `get_users_and_groups` joins nouns; `get_and_zap` and `get_user_and_zap` join verbs.
            joins_nouns = spot - 2 > lead and singular(word) != word and base_form(word) not in PLAIN_VERBS
            if not joins_nouns:
                return True
        elif graver_verb(segment, spot):
            return True
    return False


def graver_verb(words: tuple[str, ...], spot: int) -> bool:
    """The word at `spot`, inside a name that begins with a reading verb, does more than read to what follows it."""
    word = words[spot]
    if PLAIN_VERBS.get(word, Family.READ) not in _GRAVER or spot == len(words) - 1:
        return False
    return words[spot - 1] not in _PREPOSITIONS and words[-1] not in _TOLD_OF and singular(words[-1]) not in _TOLD_OF


def _either_spot(segment: tuple[str, ...]) -> tuple[int, ...]:
    found = [spot for spot, word in enumerate(segment) if word in EITHER_VERBS]
    return tuple(found[:1])


def _nouns(tokens: tuple[str, ...], before: int, spots: tuple[int, ...]) -> tuple[str, ...]:
    verbs = {before + spot for spot in spots}
    lead = min(verbs, default=-1)
    front, direct, behind = [], [], []
    passed = False
    for spot, word in enumerate(tokens):
        if spot in verbs or word.isdigit():
            continue
        if word in _SMALL_WORDS:
            passed = passed or (spot > lead and word in _PREPOSITIONS)
        elif spot < lead:
            front.append(singular(word))
        elif passed:
            behind.append(singular(word))
        else:
            direct.append(singular(word))
    return (*behind, *front, *direct)
