"""How the API is asked: pages, names of things, and the body that every question about one thing has."""

from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

Limit = Annotated[int, Query(ge=1, le=200, description="How many at once.")]
After = Annotated[str, Query(max_length=200, description="Where the page before ended (`next`).")]
RequestId = Annotated[str, Path(max_length=200, description="Its code, its id, or the start of either.")]
RunCode = Annotated[str, Path(max_length=200, description="Its code, its id, or the start of either.")]
Words = Annotated[str, Field(max_length=10_000)]


class Body(BaseModel):
    """A body in which nothing is ignored: what is misspelt is refused."""

    model_config = ConfigDict(extra="forbid")


class Why(Body):
    """A reason, for whoever reads it later."""

    reason: Words = ""


NO_REASON = Why()
