"""A policy, and what a new one changes, in a few words on a terminal."""

from assentry.cli.print import banner, say, warn
from assentry.core.policy import Mode, Policy
from assentry.core.text import counted


def tell_changes(old: Policy, new: Policy, found: tuple[str, ...], warnings: tuple[str, ...]) -> None:
    """Whoever is about to change the policy knows what that does."""
    say(f"{'the built-in policy' if not old.version else f'version {old.version}'} -> {summary(new)}")
    for sentence in found or ("nothing that matters changes",):
        say(f"  {sentence}")
    for warning in warnings:
        warn(warning)
    if new.mode is Mode.OBSERVE:
        banner(new)


def summary(policy: Policy) -> str:
    """The policy in one line."""
    rules = counted(len(policy.rules), "rule")
    nobody = ", no people listed: any local user can decide"
    people = f", {counted(len(policy.people), 'person')}" if policy.people else nobody
    mode = "" if policy.mode is Mode.ENFORCE else ", OBSERVE MODE: nothing is held"
    second = ", changes need a second person" if policy.second_person else ""
    return f"{rules}, autonomy {policy.autonomy}{people}{second}{mode}"
