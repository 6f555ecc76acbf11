"""For people: the audit log. Read it, verify it, take a copy of it that anybody can verify."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from assentry.server.api.answers import EntryPage, Verification, told
from assentry.server.visitors import Person
from assentry.telling.log_words import Wanted, in_words, read

router = APIRouter(prefix="/api/v1", tags=["log"])

_PAGE = 500
_MOST_READ = 5_000
"""How far back one call looks; whoever searches goes on from there."""
_CHUNK = 64 * 1024

Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Before = Annotated[int | None, Query(ge=1, le=2**53, description="Entries before this index (`next`).")]
Word = Annotated[str, Query(max_length=200)]


@router.get("/log", summary="What happened", **told(EntryPage, "Newest first."))
async def log(
    visitor: Person,
    request: Annotated[str, Query(max_length=200, description="About this request; its code or id.")] = "",
    kind: Annotated[str, Query(max_length=200, description="`request.decided`, or `request` for all of them.")] = "",
    agent: Annotated[str, Query(max_length=200, description="About this agent's calls.")] = "",
    before: Before = None,
    limit: Limit = 50,
) -> dict[str, Any]:
    """Entries, newest first, each also in words. A page may hold few or none while `next` says that there is more."""
    store, workspace = visitor.room.desk.store, visitor.room.name
    subject = (await visitor.room.desk.inbox.find(request)).id if request else ""
    wanted = Wanted(subject, kind, agent)
    # What was committed gets its place in the order, as any reader of the log would give it; nothing else moves.
    await store.sequence(workspace)
    found: list[dict[str, Any]] = []
    start, looked_at = before or 0, 0
    while looked_at < _MOST_READ:
        page = await store.entries(workspace, start=start, limit=_PAGE, subject=subject, newest_first=True)
        for logged in page:
            start, line = logged.index, read(logged)
            if wanted.fits(line):
                found.append({**line.document(), "says": in_words(line)})
            if len(found) == limit or start == 0:
                return {"entries": found, "next": start or None}
        looked_at += len(page)
        if len(page) < _PAGE:
            return {"entries": found, "next": None}
    return {"entries": found, "next": start or None}


@router.get("/log/verification", summary="Is it what was signed?", **told(Verification, "What a verifier found."))
async def verification(visitor: Person) -> dict[str, Any]:
    """Reads the whole log and holds it against the signed checkpoints, inside the database and outside it."""
    report = await visitor.room.desk.notary.verify()
    return {
        "ok": report.ok, "entries": report.size, "sealed": report.sealed, "checkpoints": report.checkpoints,
        "root": report.root, "notes": list(report.notes),
        "faults": [{"wrong": each.wrong.value, "says": each.says} for each in report.faults],
    }  # fmt: skip


@router.post(
    "/log/export",
    summary="A copy that anybody can verify",
    response_class=StreamingResponse,
    responses={200: {"description": "One JSON document a line, the last one signed.", "content": {
        "application/jsonl": {"schema": {"type": "string"}},
    }}},
)  # fmt: skip
async def export(visitor: Person) -> StreamingResponse:
    """The whole log, sealed and signed, for `assentry audit verify FILE`. It is sealed first, so it is a POST."""
    lines = visitor.room.desk.notary.lines()
    first = await anext(lines)  # what is wrong with the log shows here, and not in the middle of an answer
    name = f"assentry-{visitor.room.name}.jsonl"
    headers = {"content-disposition": f'attachment; filename="{name}"'} if name.isascii() and '"' not in name else {}
    return StreamingResponse(_chunks(first, lines), media_type="application/jsonl", headers=headers)


async def _chunks(first: str, lines: AsyncIterator[str]) -> AsyncIterator[str]:
    held, size = [first], len(first)
    async for line in lines:
        held.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)
