"""For people: the tools that agents and MCP servers offer. Anybody sees them; operators vouch for them."""

from enum import Enum
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from assentry.server.api.answers import ToolDocuments, told
from assentry.server.api.asking import Body
from assentry.server.visitors import Operator, Person
from assentry.telling.plain import plain_json
from assentry.telling.standing import tool_document

router = APIRouter(prefix="/api/v1", tags=["tools"])

Source = Annotated[str, Field(min_length=1, max_length=1_000, examples=["agent:billing"])]


class Word(Enum):
    """What is said of them."""

    VOUCH = "vouch"
    REVOKE = "revoke"


class Said(Body):
    """Of which tools, and what."""

    source: Source
    word: Word
    tools: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200)]],
        Field(
            default=[],
            max_length=500,
            description="Names, or digests of definitions. None: all that wait, or all vouched for.",
        ),
    ]


@router.get("/tools", summary="Tools that are offered", **told(ToolDocuments, "By source and name."))
async def tools(
    visitor: Person, source: Annotated[str, Query(max_length=1_000, description="Only of this source.")] = ""
) -> dict[str, Any]:
    """Each definition that an agent or an MCP server listed or called, our reading of it, and what people said of it.

    Those of trusted agents and servers are not here: the operator vouches for all that they offer.
    """
    found = await visitor.room.desk.rules.tools(source)
    return {"tools": plain_json([tool_document(each) for each in found])}


@router.post("/tools", summary="Vouch for tools, or no longer", **told(ToolDocuments, "Those that this changed."))
async def say(visitor: Operator, said: Said) -> dict[str, Any]:
    """Vouches for tools as they are defined now, or takes that back. A name means the newest definition of that name.

    A tool that nobody vouches for is unknown: each call of it waits, whatever it is called. For operators.
    """
    rules, by = visitor.room.desk.rules, visitor.principal
    if said.word is Word.VOUCH:
        made = await rules.vouch(by, said.source, said.tools)
    else:
        made = await rules.revoke(by, said.source, said.tools)
    return {"tools": plain_json([tool_document(each) for each in made])}
