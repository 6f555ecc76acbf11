"""Packages that only some installations have: what needs one says which extra brings it.

Which packages belong to an extra is in pyproject.toml and nowhere else. Nothing is imported here.
"""

from types import TracebackType
from typing import Self

from assentry.errors import MissingExtra


class needs:  # noqa: N801  used as a statement
    """Around imports: `with needs("server", "assentry serve"):`.

    Where a package cannot be imported, or is a version that lacks what is imported from it, `MissingExtra` is raised
    and says what to install.
    """

    def __init__(self, extra: str, what: str) -> None:
        self._extra, self._what = extra, what

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Any other error, and one that our own modules caused, goes on as it is."""
        if isinstance(problem, ImportError) and (problem.name or "").partition(".")[0] != "assentry":
            raise MissingExtra(self._extra, self._what, problem) from problem
