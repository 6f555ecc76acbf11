"""What an action would do: the operator's word first, then the catalogue, then names, descriptions and schemas.

Two halves. `profile` reads everything that stays the same from call to call and can be kept beside a guarded
function; whose word counts there is settled in `declared`. `classify` looks at one call's arguments, which may raise
what the profile says and lower it only where the operator vouches for the source and the arguments themselves show
it. Every step leaves a sentence.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assentry.core import argument_kinds as kinds
from assentry.core.action import Assessment, Basis, Declaration, Effect, Fact, Json, Reach, Risk
from assentry.core.argument_look import NO_RECIPIENT
from assentry.core.catalogue import Entry, find_entry
from assentry.core.declared import NOTHING_SAID, Said, Settled, settled, words_of
from assentry.core.description import Signs, signs_in
from assentry.core.facts import reading_of
from assentry.core.names import VERBS, Family, Name, graver_verb, split_name, words

_READ = Effect(reversible=True, reach=Reach.NOTHING)

FAMILY_EFFECTS: Mapping[Family, Effect] = {
    Family.READ: _READ,
    Family.MAKE: Effect(reversible=True, reach=Reach.LOCAL),
    Family.CREATE: Effect(reversible=True, reach=Reach.SERVICE),
    Family.CHANGE: Effect(reversible=True, reach=Reach.SERVICE),
    Family.TOUCH: Effect(reversible=True, reach=Reach.SERVICE),
    Family.START: Effect(reversible=True, reach=Reach.SERVICE),
    Family.REPLACE: Effect(reversible=False, reach=Reach.SERVICE),
    Family.RUN: Effect(reversible=False, reach=Reach.SERVICE),
    Family.REMOVE: Effect(reversible=False, reach=Reach.SERVICE),
    Family.SEND: Effect(reversible=False, reach=Reach.SERVICE, outside=True),
    Family.PAY: Effect(reversible=False, reach=Reach.SERVICE, outside=True, money=True),
}
"""What a verb means where the catalogue does not know what it is done to."""

_SAYS = {
    Family.READ: "only looks",
    Family.MAKE: "makes something new and keeps it here",
    Family.CREATE: "adds something that can be removed again",
    Family.CHANGE: "changes something that can be changed back",
    Family.TOUCH: "operates a screen",
    Family.START: "starts something that can be stopped",
    Family.REPLACE: "puts something in the place of what was there",
    Family.RUN: "can do many things, some of them for good",
    Family.REMOVE: "takes something away for good",
    Family.SEND: "tells somebody something, which cannot be taken back",
    Family.PAY: "moves money",
}
_HIDDEN = Effect(reversible=False, reach=Reach.NOTHING, outside=True)
UNKNOWN_OURS = Effect(reversible=True, reach=Reach.SERVICE)
UNKNOWN_FOREIGN = Effect(reversible=False, reach=Reach.SERVICE, outside=True)

_RUNS_TEXT = frozenset("command cmd shell bash code script sql statement python javascript expression".split())
_JUDGES_TEXT = frozenset(
    """validate verify check explain lint parse search find analyze analyse diagnose format describe query scan
    translate summarize summarise review test""".split()
)
_WRITES_IF_SET = frozenset("delete overwrite remove purge drop erase destroy truncate wipe".split())
_KEPT_AT = frozenset(
    """destination dest dst save_to save_path save_dir output output_path output_file output_dir local_path
    target_path download_path target_dir destination_path""".split()
)
_PROOF = frozenset("code otp verification_code pin token".split())
_TELLING = {"download": _KEPT_AT, "export": _KEPT_AT, "extract": _KEPT_AT, "verify": _PROOF, "check": _PROOF}
_AT_SCALE = frozenset("bulk batch mass many".split())
_HTTP_READS = frozenset({"get", "head", "options"})
_HTTP = frozenset({*_HTTP_READS, "post", "put", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of an action before any call: computed once, kept beside the function it describes."""

    name: str
    schema: Mapping[str, Json] | None
    declared: Declaration
    """What holds of everything that was declared of it."""
    answers_bind: bool
    """A declared risk is at least what the answers come to."""
    trusted: bool
    base: Assessment
    """The assessment of a call whose arguments say nothing more."""
    text: str = ""
    """What the arguments of each call may themselves contain: `shell`, `sql`, `code`, `http` or nothing."""
    family: Family | None = None
    pays: bool = False
    """Its verb hands something over, so that an amount among the arguments is money."""
    telling: frozenset[str] = frozenset()
    """Arguments that, where given, show that a reading name does more than look."""
    choices: frozenset[str] = frozenset()
    """Arguments for which the schema enumerates what may be given."""
    unclaimed: "Profile | None" = None
    """The same without what a stranger claims of it, where one claims anything; the worse of the two holds."""


def profile(
    name: str, description: str = "", schema: Mapping[str, Json] | None = None, said: Said = NOTHING_SAID
) -> Profile:
    """Everything about an action that does not depend on one call's arguments."""
    parts = split_name(name)
    entry = find_entry(parts)
    signs, parameters = signs_in(description), _parameters(schema)
    guess = _guess(parts, entry, signs, parameters, trusted=said.trusted)
    claimed = NOTHING_SAID.source
    if not said.trusted:
        # What a stranger says counts against it as much as our own words would.
        ours = _guess(parts, entry, signs, parameters, trusted=True)
        guess = guess.raised(ours.effect, ours.reasons[0]).at_least(ours.least, ours.reasons[0])
        claimed = said.source
    held = settled(said)
    declared = held.declaration
    base = _with_declared(_worse(guess, claimed), held)
    unclaimed = None
    if not claimed.is_empty:
        unclaimed = profile(name, description, schema, replace(said, source=NOTHING_SAID.source))
        base = _worse_of(base, unclaimed.base)
        least = claimed.risk if declared.risk is None and not declared.is_complete else None
        base = base if least is None or base.risk >= least else replace(base, risk=least)
    vouched = said.trusted or declared.reach is not None
    base = replace(base, vouched=vouched, words=words_of(said, base.effect, base.risk))
    telling = _TELLING.get(parts.verb or "", frozenset()) if base.effect.is_read else frozenset()
    pays = parts.family in {Family.PAY, Family.SEND} or "transfer" in parts.verbs
    text = entry.text if entry else ""
    return Profile(
        name, schema, declared, held.answers_bind, said.trusted, base, text, parts.family, pays, telling,
        _choices(schema), unclaimed,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Guess:
    effect: Effect
    least: Risk
    basis: Basis
    reasons: tuple[str, ...]

    def raised(self, effect: Effect, reason: str) -> "_Guess":
        joined = _stricter(self.effect, effect)
        return self if joined == self.effect else replace(self, effect=joined, reasons=self._with(reason))

    def at_least(self, risk: Risk, reason: str) -> "_Guess":
        return self if self.least >= risk else replace(self, least=risk, reasons=self._with(reason))

    def _with(self, reason: str) -> tuple[str, ...]:
        return self.reasons if reason in self.reasons else (*self.reasons, reason)


def _guess(parts: Name, entry: Entry | None, signs: Signs, parameters: frozenset[str], *, trusted: bool) -> _Guess:
    guess = _from_name(parts, entry, signs, trusted=trusted)
    reads = guess.effect.is_read
    if signs.for_good and not reads:
        guess = guess.raised(FAMILY_EFFECTS[Family.REMOVE], f"Its description says “{signs.for_good}”.")
    signals = signs.contrary if trusted else (*signs.contrary, *signs.hinted)
    contrary = next((verb for verb in signals if _contradicts(verb, parts, entry, reads=reads)), None)
    if contrary is not None and not (reads and signs.only_reads and trusted):
        told = FAMILY_EFFECTS[VERBS[contrary]]
        guess = guess.raised(told, f"Its description also says that it may {contrary}.")
    if _runs_given_text(parts, entry, parameters, trusted=trusted):
        given = ", ".join(sorted(_RUNS_TEXT & parameters))
        guess = guess.raised(FAMILY_EFFECTS[Family.RUN], f"It runs text that the agent writes ({given}).")
    if not _AT_SCALE.isdisjoint(parts.tokens) and parts.family in {Family.CHANGE, Family.START}:
        guess = guess.raised(FAMILY_EFFECTS[Family.REPLACE], "Done to many at once, it cannot be undone one by one.")
    if reads and not _WRITES_IF_SET.isdisjoint(parameters):
        given = ", ".join(sorted(_WRITES_IF_SET & parameters))
        guess = guess.raised(FAMILY_EFFECTS[Family.REMOVE], f"A parameter lets it do more than look ({given}).")
    if not trusted and guess.basis is not Basis.UNKNOWN and guess.effect.risk is Risk.SAFE:
        says = "Nobody vouches for where it comes from, so that its name alone does not make it safe."
        guess = replace(guess, basis=Basis.NAMES).at_least(Risk.RISKY, says)
    return guess


def _worse(guess: _Guess, claimed: Declaration) -> _Guess:
    """The guess, raised where a claim goes beyond it."""
    if claimed.is_empty:
        return guess
    says = "Whoever offers it says so."
    raised = guess.raised(_pinned(guess.effect, claimed), says)
    return raised if claimed.risk is None else raised.at_least(claimed.risk, says)


def _contradicts(verb: str, parts: Name, entry: Entry | None, *, reads: bool) -> bool:
    if verb in parts.verbs or (entry is not None and verb in entry.verbs):
        return False
    return reads or VERBS[verb] is not Family.SEND


def _runs_given_text(parts: Name, entry: Entry | None, parameters: frozenset[str], *, trusted: bool) -> bool:
    given = _RUNS_TEXT & parameters
    if not given or (entry is not None and entry.text):
        return False
    if parts.family in {Family.START, Family.RUN, Family.TOUCH, None}:
        return True
    if parts.family is not Family.READ or not _JUDGES_TEXT.isdisjoint(parts.tokens):
        return False
    return not trusted or not given.isdisjoint({"command", "cmd", "shell", "bash"})


def _from_name(parts: Name, entry: Entry | None, signs: Signs, *, trusted: bool) -> _Guess:
    if entry is not None and (trusted or not (parts.hides and entry.effect.is_read)):
        reasons = (f"Known as “{entry.name}”: {entry.because}",)
        return _Guess(entry.effect, entry.least, Basis.CATALOGUE, reasons)
    if parts.hides and not trusted:
        return _hidden(parts)
    if parts.family is not None:
        said = " and ".join(parts.verbs)
        reason = f"The name says “{said}”, which {_SAYS[parts.family]}."
        return _Guess(FAMILY_EFFECTS[parts.family], Risk.SAFE, Basis.NAMES, (reason,))
    if signs.leading is not None and trusted:  # a stranger's own words say nothing in its favour
        family = VERBS[signs.leading]
        reason = f"Its description begins with “{signs.leading}”, which {_SAYS[family]}."
        return _Guess(FAMILY_EFFECTS[family], Risk.SAFE, Basis.NAMES, (reason,))
    if trusted:
        return _Guess(UNKNOWN_OURS, Risk.RISKY, Basis.UNKNOWN, ("Nothing says what this does.",))
    says = "Nothing says what this does, and nobody vouches for where it comes from."
    return _Guess(UNKNOWN_FOREIGN, Risk.DANGEROUS, Basis.UNKNOWN, (says,))


def _hidden(parts: Name) -> _Guess:
    """A stranger's name that begins like a read and goes on: nothing is known of it, and no word of it is believed."""
    says = f"The name begins with “{parts.verb}” and goes on, and nobody vouches for where it comes from."
    guess = _Guess(_HIDDEN, Risk.DANGEROUS, Basis.UNKNOWN, (says,))
    for spot, word in enumerate(parts.tokens):
        if spot and graver_verb(parts.tokens, spot):
            family = VERBS[word]
            guess = guess.raised(FAMILY_EFFECTS[family], f"It also says “{word}”, which {_SAYS[family]}.")
    return guess


def _parameters(schema: Mapping[str, Json] | None) -> frozenset[str]:
    properties = schema.get("properties") if schema is not None else None
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset("_".join(words(str(name))) for name in properties)


def _choices(schema: Mapping[str, Json] | None) -> frozenset[str]:
    properties = (schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return frozenset()
    return frozenset(name for name, each in properties.items() if isinstance(each, Mapping) and "enum" in each)


def _with_declared(guess: _Guess, held: Settled) -> Assessment:
    declared = held.declaration
    if declared.is_empty:
        risk = max(guess.effect.risk, guess.least, key=lambda risk: risk.rank)
        return Assessment(guess.effect, risk, guess.basis, guess.reasons)
    effect = _pinned(guess.effect, declared)
    answers, complete = declared.answers, declared.is_complete
    risk = effect.risk
    if not complete and guess.least > risk and _stricter(effect, guess.effect) == effect:
        risk = guess.least  # no answer is milder than what was known without it
    if declared.risk is not None and (not held.answers_bind or declared.risk > risk):
        risk = declared.risk
    said = [*answers, *(("risk",) if declared.risk is not None else ())]
    reasons = (f"Declared: {', '.join(said)}.", *(() if complete else guess.reasons))
    return Assessment(effect, risk, Basis.DECLARED, reasons)


def _pinned(effect: Effect, declared: Declaration) -> Effect:
    return Effect(
        reversible=effect.reversible if declared.reversible is None else declared.reversible,
        reach=effect.reach if declared.reach is None else declared.reach,
        outside=effect.outside if declared.outside is None else declared.outside,
        money=effect.money if declared.money is None else declared.money,
    )


def _stricter(one: Effect, other: Effect) -> Effect:
    return Effect(
        reversible=one.reversible and other.reversible,
        reach=max(one.reach, other.reach, key=lambda reach: reach.rank),
        outside=one.outside or other.outside,
        money=one.money or other.money,
    )


def classify(profile: Profile, args: Mapping[str, Json], *, domains: Sequence[str] = ()) -> Assessment:
    """What one call would do: its profile, raised by what the arguments show."""
    found = _classified(profile, args, domains)
    # A stranger's claim changes what the arguments are looked at for; it must not take away what they show without it.
    return found if profile.unclaimed is None else _worse_of(found, _classified(profile.unclaimed, args, domains))


def _worse_of(one: Assessment, other: Assessment) -> Assessment:
    """The first, with whatever is worse in the other."""
    risk = max(one.risk, other.risk, key=lambda risk: risk.rank)
    effect = _stricter(one.effect, other.effect)
    if (effect, risk) == (one.effect, one.risk):
        return one
    return replace(one, effect=effect, risk=risk, reasons=tuple(dict.fromkeys((*one.reasons, *other.reasons))))


def _classified(profile: Profile, args: Mapping[str, Json], domains: Sequence[str]) -> Assessment:
    is_declared = bool(profile.declared.money)
    reading = reading_of(profile.name, args, schema=profile.schema, domains=domains, declared_money=is_declared)
    facts = reading.facts
    tells = bool(profile.telling) and not profile.telling.isdisjoint(args)
    if not facts and not tells:
        return profile.base
    found = {fact.name: fact for fact in facts}
    call = _Call(profile, args, profile.base, is_money=reading.is_money)
    call.knows_outside = bool(domains)
    if tells:
        given = ", ".join(sorted(profile.telling & args.keys()))
        call.becomes(FAMILY_EFFECTS[Family.MAKE], f"Given {given}, it does more than look.")
    for look in _LOOKS:
        look(call, found)
    return replace(profile.base, effect=call.effect, risk=call.risk, reasons=tuple(call.reasons), facts=facts)


class _Call:
    """One call while its facts are weighed."""

    __slots__ = ("args", "effect", "is_money", "knows_outside", "profile", "reasons", "risk")

    def __init__(self, profile: Profile, args: Mapping[str, Json], base: Assessment, *, is_money: bool) -> None:
        self.profile, self.args, self.is_money = profile, args, is_money
        self.knows_outside = False
        self.effect, self.risk, self.reasons = base.effect, base.risk, list(base.reasons)

    def becomes(self, effect: Effect, reason: str) -> None:
        """The effect is at least this one, except where the operator has said otherwise."""
        declared = self.profile.declared
        joined = _pinned(_stricter(self.effect, effect), declared)
        if joined != self.effect:
            self.effect = joined
            if (declared.risk is None or self.profile.answers_bind) and joined.risk > self.risk:
                self.risk = joined.risk
            self.reasons.append(reason)

    def weighs_as(self, effect: Effect, reason: str) -> None:
        """The risk is at least that of this effect, which is not said to be one; declared answers count as above."""
        joined = _pinned(_stricter(self.effect, effect), self.profile.declared)
        if (self.profile.declared.risk is None or self.profile.answers_bind) and joined != self.effect:
            self.at_least(joined.risk, reason)

    def at_least(self, risk: Risk, reason: str) -> None:
        if self.risk < risk:
            self.risk = risk
            self.reasons.append(reason)

    def lowers(self, effect: Effect, reason: str) -> None:
        """The arguments show that it does less; believed where the source is vouched for and nobody said otherwise."""
        if self.profile.trusted and self.profile.declared.is_empty:
            self.effect = effect
            self.risk = self.effect.risk
            self.reasons.append(reason)


_Found = Mapping[str, Fact]
_PLACES = ("cwd", "workdir", "working_directory")
_ASIDE = """timeout timeout_ms timeout_seconds description explanation reason cwd workdir working_directory
    run_in_background"""
_HARMLESS_BESIDE = {
    "shell": frozenset(_ASIDE.split()),
    "sql": frozenset(f"{_ASIDE} params parameters bindings limit max_rows database db schema connection_id".split()),
}
"""Arguments that change nothing about what a command or a statement does."""
_DESTROYS = FAMILY_EFFECTS[Family.REMOVE]
_CHANGES = FAMILY_EFFECTS[Family.CHANGE]


def _text_itself(call: _Call, found: _Found) -> None:
    """A command or statement that only reads lowers; one that writes or destroys raises."""
    text = call.profile.text
    if "destroys" in found:
        call.becomes(_DESTROYS, f"What it runs destroys: {found['destroys'].says}.")
    elif "only_reads" in found:
        if (
            text in _HARMLESS_BESIDE
            and not call.effect.is_read
            and _says_it_all(call.args, _HARMLESS_BESIDE[text])
            and not (_runs_git(found) and _elsewhere(call.args))
        ):
            call.lowers(_READ, "What it runs only reads.")
    elif "statements" in found:
        call.becomes(_CHANGES, f"What it runs may write: {found['statements'].says}.")
    elif "programs" in found and call.effect.is_read:
        call.becomes(_CHANGES, f"It {found['programs'].says}, which may write.")


def _runs_git(found: _Found) -> bool:
    programs = found["programs"].value if "programs" in found else ()
    return isinstance(programs, list | tuple) and "git" in programs


def _elsewhere(args: Mapping[str, Json]) -> bool:
    """A directory is given to run in. The settings of the repository that is there can make git run programs."""
    return any(args.get(name) not in (None, "", ".") for name in _PLACES)


def _says_it_all(args: Mapping[str, Json], harmless: frozenset[str]) -> bool:
    """Besides the text that was read, nothing is given that could change what the text does."""
    return all(key in harmless or kinds.of(key) & (kinds.COMMAND | kinds.SQL) for key in args)


def _operation(call: _Call, found: _Found) -> None:
    """An argument that names what to do counts like a verb in the name."""
    if "operation" not in found:
        return
    asked = found["operation"].value.split(", ")
    if call.profile.text == "http" and _HTTP.issuperset(asked):
        if _HTTP_READS.issuperset(asked):
            call.lowers(replace(_READ, outside=True), f"It asks for {asked[0].upper()}, which only reads.")
        return
    families = [split_name(one).family for one in asked]
    if all(family is Family.READ for family in families):
        # Only the choice that the operator's own schema enumerates says what happens; any other field is just data.
        chosen = {call.args[name] for name in call.profile.choices if isinstance(call.args.get(name), str)}
        if call.profile.family in {Family.RUN, None} and not call.profile.text and chosen.issuperset(asked):
            call.lowers(_READ, f"It asks for “{asked[0]}”, which only looks.")
        return
    for one, family in zip(asked, families, strict=True):
        if family is not None and family is not Family.READ:
            call.becomes(FAMILY_EFFECTS[family], f"It asks for “{one}”, which {_SAYS[family]}.")


def _recipients(call: _Call, found: _Found) -> None:
    if call.effect.is_read:
        return
    if "external" in found:
        call.becomes(replace(_CHANGES, outside=True), f"It leaves our systems: {found['external'].says}.")
    elif call.knows_outside and "external" in _unread(found) and NO_RECIPIENT not in found["unreadable"].says:
        call.becomes(replace(_CHANGES, outside=True), f"It may leave our systems: {found['unreadable'].says}.")


def _unread(found: _Found) -> Collection[str]:
    return found["unreadable"].value if "unreadable" in found else ()


def _money(call: _Call, found: _Found) -> None:
    unread = "unreadable" in found and "amount" in found["unreadable"].value and found["unreadable"].hurts
    # Also by its name: that somebody says it does more than read must not make it milder.
    reads = call.effect.is_read or call.profile.family is Family.READ
    if reads and not call.profile.trusted and ("amount" in found or unread) and _pays_in(call.args):
        says = found["amount"].says if "amount" in found else "one that could not be read"
        call.becomes(_PAYS, f"A read has no use for an amount, and nobody vouches for where it comes from: {says}.")
    if "amount" in found and found["amount"].value > 0 and call.profile.pays:
        costs = replace(_CHANGES, money=True)
        if call.is_money:
            call.becomes(costs, f"It costs money: {found['amount'].says}.")
        else:
            says = f"It hands over a number that may be money, though nothing names a currency: {found['amount'].says}."
            call.weighs_as(costs, says)


_PAYS = Effect(reversible=False, reach=Reach.SERVICE, outside=True, money=True)
_BOUNDS = frozenset("min max minimum maximum lower upper below above over under budget".split())


def _pays_in(args: Mapping[str, Json]) -> bool:
    """An amount among the arguments is more than a bound of what is looked for (`max_price`)."""
    sums = [key for key in args if kinds.of(key) & kinds.AMOUNT]
    return not sums or any(_BOUNDS.isdisjoint(words(key)) for key in sums)


def _environment(call: _Call, found: _Found) -> None:
    if call.effect.is_read:
        return
    far = replace(call.effect, reach=Reach.ORGANISATION)
    if "environment" in found and found["environment"].value == "production":
        call.becomes(far, "It reaches everybody who depends on production.")
    elif "environment" in _unread(found):
        call.becomes(far, "It may reach everybody who depends on production: where it happens could not be read.")


def _alarms(call: _Call, found: _Found) -> None:
    """What is alarming whatever the operator declared of the action in general."""
    if "credentials" in found:
        call.at_least(Risk.CRITICAL, f"It touches {found['credentials'].says}.")
    if "unbounded" in found and not call.effect.is_read:
        call.at_least(Risk.DANGEROUS, f"There is {found['unbounded'].says}.")
    if "secret" in found and call.effect.outside and not call.effect.is_read:
        risk = Risk.DANGEROUS if call.effect.reversible else Risk.CRITICAL
        call.at_least(risk, f"It would carry out of our systems {found['secret'].says}.")
    if "sudo" in found or "to_shell" in found:
        how = "text that comes from elsewhere" if "to_shell" in found else "with the rights of an administrator"
        call.at_least(Risk.DANGEROUS, f"It runs {how}.")


_LOOKS = (_text_itself, _operation, _recipients, _money, _environment, _alarms)
