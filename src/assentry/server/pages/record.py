"""The log: what happened, in words; whether it was tampered with; and a copy that proves itself."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from assentry.errors import NotFound
from assentry.server.pages.frame import page, person_or_door
from assentry.server.visitors import Person
from assentry.telling.log_words import Wanted, backwards, in_words, when

router = APIRouter()

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One entry."""

    index: int
    at: str
    says: str
    code: str


@router.get("/log")
async def log(
    request: Request, about: str = "", kind: str = "", agent: str = "", before: int = 0, verify: bool = False
) -> Response:
    """The newest entries that fit. With `verify`, the whole log is held against its signed checkpoints."""
    visitor = await person_or_door(request)
    if isinstance(visitor, Response):
        return visitor
    desk = visitor.room.desk
    complaint, subject = "", ""
    if about.strip():
        try:
            subject = (await desk.inbox.find(about)).id
        except NotFound as problem:
            complaint = str(problem)
    wanted = Wanted(subject, kind[:100], agent[:200])
    found = [] if complaint else [
        line async for line in backwards(desk.store, visitor.room.name, wanted, _PAGE, max(0, before))
    ]  # fmt: skip
    rows = [Row(each.index, when(each.at), in_words(each), str(each.body.get("code", ""))) for each in found]
    report = await desk.notary.verify() if verify else None
    following = found[-1].index if len(found) == _PAGE else 0
    return await page(
        request, "log", visitor,
        rows=rows, about=about[:100], kind=kind[:100], agent=agent[:200], next=following, report=report,
        complaint=complaint,
    )  # fmt: skip


@router.get("/log/export")
async def export(visitor: Person) -> StreamingResponse:
    """The whole log with its proofs; `assentry audit verify FILE` checks it anywhere."""
    notary = visitor.room.desk.notary

    async def lines() -> AsyncIterator[str]:
        async for line in notary.lines():
            yield line

    name = f"assentry-log-{visitor.room.name}.jsonl"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines(), media_type="application/jsonl", headers=headers)
