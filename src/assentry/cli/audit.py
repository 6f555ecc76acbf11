"""The record from a terminal: the log in words, and its proofs: verify, export, seal, receipts, keys."""

import os
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer

from assentry.assemble import Desk, keys_for
from assentry.cli import reading
from assentry.cli.files import key_text, new_file
from assentry.cli.group import Group
from assentry.cli.outcome import TAMPERED
from assentry.cli.plain import print_json
from assentry.cli.print import console, inert, say
from assentry.cli.session import AsJson, at_desk, operator, settings_of
from assentry.core.action import Json
from assentry.core.audit import Checkpoint, Report
from assentry.core.receipt import check_receipt
from assentry.core.signing import PublicKeys, public_key
from assentry.core.text import counted, visible
from assentry.engine.notary import Notary, verify_export
from assentry.errors import StoreError
from assentry.keys import KeyRing
from assentry.ports import Signed
from assentry.telling.log_words import Wanted


class ReceiptGroup(Group):
    """`assentry receipt 7k` means `assentry receipt for 7k`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args.insert(0, "for")
        return super().parse_args(ctx, args)


app = typer.Typer()
audit = typer.Typer(cls=Group, help="Verify, export and seal the audit log.")
receipts = typer.Typer(
    cls=ReceiptGroup,
    rich_markup_mode="rich",
    help="A signed receipt for a decision; or verify one.\n\nExample: assentry receipt 7k -o 7k.receipt",
)
keys = typer.Typer(cls=Group, help="Show and rotate the keys that sign.")
app.add_typer(audit, name="audit")
app.add_typer(receipts, name="receipt")
app.add_typer(keys, name="keys")

Output = Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; else standard output.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the file.")]
Key = Annotated[list[str] | None, typer.Option(help="A public key you trust: a file, or 64 hex digits.", metavar="PUB")]


@app.command()
def log(
    ctx: typer.Context,
    request: Annotated[str, typer.Option(help="Only about this request; its id may be abbreviated.")] = "",
    kind: Annotated[
        str, typer.Option(help="Only of this kind: request.decided, or request for all of its kinds.")
    ] = "",
    agent: Annotated[str, typer.Option(help="Only about this agent's calls.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many.")] = 30,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stay, and print what is added.")] = False,
    as_json: AsJson = False,
) -> None:
    """What happened, newest first, in words.

    Example: assentry log --request 7k
    """

    async def work(desk: Desk) -> None:
        subject = (await desk.inbox.find(request)).id if request else ""
        wanted = Wanted(subject, kind, agent)
        if follow:
            await reading.follow(desk, wanted, limit, as_json=as_json)
        else:
            await reading.newest(desk, wanted, limit, as_json=as_json)

    at_desk(ctx, work)


@audit.command()
def verify(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="An export; without it, the database's log.")] = "",
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """Check that nothing in the log was changed, removed, added or moved. Exit code 5 if something was.

    Without FILE the whole log is held against the signed checkpoints in the database and outside it. With FILE
    no database is needed; give the public key that you got another way.

    Example: assentry audit verify march.jsonl --key auditor.pem
    """
    if file:
        try:
            with Path(file).open("rb") as lines:
                checked = verify_export(lines, [key_text(one) for one in key] if key else None)
        except OSError as problem:
            raise StoreError(f"{file} cannot be read: {problem.strerror}; check the path") from None
        report = checked.report
        about = {"file": file, "log": checked.origin, "keys": list(checked.keys), "trusted": checked.trusted}
    else:
        trusted = [key_text(one) for one in key or ()]
        report, about = at_desk(ctx, lambda desk: _also_trusting(desk, trusted).verify()), {}
    _tell_report(report, about, as_json=as_json)
    if not report.ok:
        raise typer.Exit(TAMPERED)


@audit.command()
def export(ctx: typer.Context, output: Output = "", force: Force = False, as_json: AsJson = False) -> None:
    """Write the whole log, sealed and signed, as a file that can be verified far from here.

    Example: assentry audit export -o march.jsonl
    """
    if not output and (as_json or sys.stdout.isatty()):
        # Its bytes are for verifiers; a terminal would obey some of them.
        raise typer.BadParameter("name a file with --output FILE, or redirect the output into one")

    async def work(desk: Desk) -> int:
        if not output:
            if isinstance(sys.stdout, TextIOWrapper):
                # Digests are over these bytes, whatever the system's code page and ends of lines are.
                sys.stdout.reconfigure(encoding="utf-8", newline="\n")
            return await desk.notary.export(sys.stdout.write)
        with new_file(output, force=force) as (part, goal):
            with part.open("w", encoding="utf-8", newline="") as lines:
                count = await desk.notary.export(lines.write)
                lines.flush()
                os.fsync(lines.fileno())
            part.replace(goal)
        return count

    count = at_desk(ctx, work)
    if as_json:
        print_json({"file": output, "entries": count})
    elif output:
        say(f"{counted(count, 'entry')} in {output}; verify them anywhere: assentry audit verify {output} --key PUB")


@audit.command()
def seal(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Sign the log as it stands, in the database and outside it.

    Example: assentry audit seal
    """
    signed: Signed | None = at_desk(ctx, lambda desk: desk.notary.seal())
    root = Checkpoint.parse(signed.text).root if signed else ""
    if as_json:
        size, name = (signed.size, signed.key_id) if signed else (0, "")
        return print_json({"entries": size, "root": root, "key": name})
    if signed is None:
        return say("there are no entries yet, so there is nothing to seal")
    return say(f"{counted(signed.size, 'entry')} sealed with key {signed.key_id}; root {root}")


@receipts.command("for")
def receipt_for(
    ctx: typer.Context,
    request_id: Annotated[
        str, typer.Argument(metavar="ID", help="The request; may be abbreviated.", show_default=False)
    ],
    output: Output = "",
    force: Force = False,
) -> None:
    """Give a signed receipt for the decision on a request. The word `for` may be left out.

    Example: assentry receipt 7k -o 7k.receipt
    """

    async def work(desk: Desk) -> str:
        return await desk.notary.receipt((await desk.inbox.find(request_id)).id)

    text = at_desk(ctx, work)
    if not output:
        if sys.stdout.isatty() and visible(text) != text:
            raise typer.BadParameter("this receipt holds characters that a terminal may obey; use --output FILE")
        # Already one JSON document, whose every byte counts.
        print(text)
        return
    with new_file(output, force=force) as (part, goal):
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(goal)
    say(f"the receipt is in {output}; anyone can check it: assentry receipt verify {output} --key PUB")


@receipts.command("verify")
def receipt_verify(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", show_default=False)],
    key: Annotated[
        str, typer.Option(help="The issuer's public key: a file or 64 hex digits; else the keys here.", metavar="PUB")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check a receipt with nothing but a public key. Exit code 5 if it is not what was signed.

    Example: assentry receipt verify 7k.receipt --key issuer.pem
    """
    try:
        data = Path(file).read_bytes()
    except OSError as problem:
        raise StoreError(f"{file} cannot be read: {problem.strerror}; check the path") from None
    trusted = PublicKeys.of(key_text(key)) if key else keys_for(settings_of(ctx)).public_keys()
    found = check_receipt(data, trusted)
    if as_json:
        return print_json({"ok": True, "says": found.says, "request": found.request, "key": found.key,
                           "index": found.index, "entry": found.facts()})  # fmt: skip
    say("genuine: ", inert(found.says))
    return say(f"   entry {found.index} of the log, signed with key {found.key}")


@audit.command("keys", hidden=True)
@keys.command("show")
def keys_show(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Print the public key that signs now, for those who verify; give it to them by a way they trust.

    Example: assentry keys show > issuer.pem
    """
    ring = keys_for(settings_of(ctx))
    name, pem = ring.key_id, ring.public_key()
    if as_json:
        return print_json({"key": name, "pem": pem, "known": sorted(ring.public_keys().by_id)})
    print(pem, end="")
    print(f"assentry: key {name}, kept in {ring.directory}", file=sys.stderr)
    return None


@keys.command("trust")
def keys_trust(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="PUB", help="A file, or 64 hex digits.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Take another machine's public key for genuine from now on, where several share a database.

    Example: assentry keys trust server-2.pem
    """
    name = keys_for(settings_of(ctx)).trust(key_text(key))
    if as_json:
        return print_json({"key": name})
    return say(f"key {name} is trusted from now on: what it signed verifies here")


@keys.command("rotate")
def keys_rotate(
    ctx: typer.Context,
    sealing: Annotated[bool, typer.Option("--sealing", help="The key that seals secrets, instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sign with a new key from now on; the old one vouches for it in the log.

    Example: assentry keys rotate
    """

    async def work(desk: Desk) -> str:
        person = operator(desk)
        return desk.keys.rotate_sealing() if sealing else await desk.notary.rotate(person.name)

    name = at_desk(ctx, work)
    if as_json:
        return print_json({"key": name, "purpose": "sealing" if sealing else "signing"})
    return say(f"key {name} {'seals secrets' if sealing else 'signs'} from now on; the old one still verifies")


class _Trusting(KeyRing):
    """The keys here, and some more for this once."""

    def __init__(self, directory: Path, more: Iterable[str]) -> None:
        super().__init__(directory)
        self._more = [public_key(text) for text in more]

    def public_keys(self) -> PublicKeys:
        return super().public_keys().adding(self._more)


def _also_trusting(desk: Desk, more: list[str]) -> Notary:
    if not more:
        return desk.notary
    return Notary(desk.store, _Trusting(desk.keys.directory, more), desk.settings.workspace)


def _tell_report(report: Report, about: dict[str, Json], *, as_json: bool) -> None:
    if as_json:
        return print_json({
            "ok": report.ok, **about, "entries": report.size, "sealed": report.sealed,
            "checkpoints": report.checkpoints, "root": report.root, "faults": report.faults, "notes": report.notes,
        })  # fmt: skip
    if report.ok:
        covered = f"{report.sealed} of them below {counted(report.checkpoints, 'signed checkpoint')}"
        entries = counted(report.size, "entry")
        say(f"whole: {entries}, {covered}; nothing below a checkpoint was changed, removed, added or moved")
    else:
        errors = console(errors=True)
        for fault in report.faults:
            errors.print(inert(f"TAMPERED: {fault.wrong.value}: {fault.says}", "bold red"), soft_wrap=True)
    for note in report.notes:
        say(f"  note: {note}")
    return None
