"""A tool call of any framework: proposed under the framework's own name for it, and carried out once.

A framework takes a step again whenever it goes on. The call that it makes then finds its request: what was decided is
done, what was done is told again, and nothing is asked or run twice. What a framework passes back when it goes on is
never looked at: only the decision on record counts.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_jsonable_python

from assentry.core.action import Declaration, Json
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request, State
from assentry.engine.errands import changed_words
from assentry.engine.gate import Gate
from assentry.engine.holding import CURRENT
from assentry.engine.proposal import Proposal, Running
from assentry.engine.sealing import holds_marks
from assentry.engine.threads import in_thread
from assentry.engine.tool import resolved
from assentry.errors import (
    ActionFailed,
    AlreadyDecided,
    AssentryError,
    Conflict,
    Denied,
    GuardError,
    InvalidArguments,
    LeaseLost,
    OutcomeUnknown,
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as a framework is about to make it."""

    name: str
    args: Mapping[str, Json]
    id: str
    """The framework's own name for it: the same when the step is taken again."""
    description: str = ""
    schema: Mapping[str, Json] | None = None
    why: str = ""
    insists: str = ""
    """Why a person has to look whatever the policy says."""
    trusted: bool = True
    """We vouch for its name, description and schema."""
    thread: str = ""
    """The conversation that it belongs to, where that is no run: ids are only known within one."""
    is_question: bool | None = None
    """It is our `ask_person`. Where an adapter cannot tell, its name does, and whatever has that name is never run."""

    @property
    def asks(self) -> bool:
        """Its arguments are a question to a person; a stranger's tool of that name is a tool like any other."""
        return self.trusted and (self.name == ASK if self.is_question is None else self.is_question)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a call stands: its request, if it made one, and how it is carried out."""

    request: Request | None
    proposal: Proposal | None = None
    """None for a question, which nobody carries out."""

    @property
    def is_held(self) -> bool:
        """Somebody else has to move it before it can be made: a person, or whoever finds out how it went."""
        if self.request is None:
            return False
        active = CURRENT.get()
        unknown = self.request.state is State.UNKNOWN and active is not None and bool(active.record.host)
        return self.request.state is State.PENDING or unknown


@dataclass(frozen=True, slots=True)
class Given:
    """What a framework gets for a call."""

    value: Any = None
    """What the tool returned; from the record, as JSON, where it ran before."""
    says: str = ""
    """For the model: why it did not run, or what really ran."""
    ran: bool = True
    failed: bool = False
    """It ran before and ended in an error, or nobody knows how."""

    def text(self, value: str | None = None) -> str:
        """All of it as one text for the model; `value` is how the framework writes what the tool returned."""
        if not self.ran or self.failed:
            return self.says
        told = value if value is not None else as_text(self.value)
        return f"{told}\n\n{self.says}" if self.says else told


class ToolRaised(Exception):
    """The tool ran and raised one of our own errors, such as the denial of something inside it."""


class StartsAgain(Exception):
    """Raised out of `make`: the tool stopped inside to wait for something, and is called again from its start."""


ASK = "ask_person"
"""What a tool is called whose call is a question to a person."""


async def ask_person(question: str, choices: list[str] | None = None) -> str:
    """Asks a person a question, and returns what they answer. `choices` are answers to choose from, if any."""
    raise GuardError(f"{ASK} was not asked: no adapter of Assentry carries out this tool ({question!r}, {choices})")


Make = Callable[[dict[str, Any]], Awaitable[Any]]


class ToolCalls:
    """The calls of one framework's tools through a gate. `effects` declares what tools do, by name."""

    def __init__(self, gate: Gate, effects: Mapping[str, Declaration] | None = None) -> None:
        self.gate, self._effects = gate, dict(effects or {})
        for name, effect in self._effects.items():
            if not isinstance(effect, Declaration):
                raise GuardError(f"effects says what {name} does with assentry.Declaration(reversible=…, outside=…)")

    async def proposed(self, call: ToolCall) -> Standing:
        """The call is judged and on record, or was before; nothing is waited for."""
        if not call.id:
            raise InvalidArguments(f"the call of {call.name} has no id, so that it could not be found again")
        within = f"{call.thread}:{call.id}" if call.thread and CURRENT.get() is None else call.id
        if call.asks:
            return Standing(await self._question(call, within))
        attempt = 1
        described: dict[str, Any] = {
            "description": call.description, "schema": call.schema, "insists": call.insists,
            "trusted": call.trusted,
            **({"why": call.why} if call.why else {}),
        }  # fmt: skip
        while True:
            key = within if attempt == 1 else f"{within}:{attempt}"
            proposal = await self.gate.propose(
                call.name, call.args, declared=self._effects.get(call.name), key=key, **described
            )
            if proposal.request is None and holds_marks(call.args):
                raise InvalidArguments(
                    f"{call.name} was given the mark of a secret and not the secret; pass it in another way"
                )
            if proposal.request is None or not _starts_again(proposal.request):
                return Standing(proposal.request, proposal)
            attempt += 1

    async def _question(self, call: ToolCall, key: str) -> Request:
        text, choices = call.args.get("question"), call.args.get("choices") or ()
        if not isinstance(text, str) or not text or isinstance(choices, str):
            raise InvalidArguments(f"{ASK} takes a question and, if any, a list of choices")
        request = await self.gate.question(text, choices=tuple(map(str, choices)), time=None, key=key)
        asked = request.ask.question
        if asked is None or (asked.text != text and not holds_marks([asked.text, text])):
            raise Conflict(
                f"step {call.id!r} was used for another call (request {request.code})",
                request_id=request.id, code=request.code, state=str(request.state),
            )  # fmt: skip
        return request

    async def given(
        self, call: ToolCall, make: Make, standing: Standing | None = None,
        keep: Callable[[Any], Json] | None = None, patience: float | None = None,
    ) -> Given:  # fmt: skip
        """What came of the call: made here once it is allowed, or told from the record. Raises `Parked` where it waits.

        `make(args)` calls the tool with what was approved. Its errors are on record, and come out as they are. `keep`
        makes of its result what is kept. It waits as its run does, or for `patience` seconds.
        """
        standing = standing or await self.proposed(call)
        try:
            if standing.proposal is not None:
                return await self._made(call, make, standing.proposal, keep or kept, patience)
            assert standing.request is not None  # noqa: S101  a question is on record
            return Given(await self.gate.heard(standing.request, patience))
        except Denied as denied:
            if denied.stop:
                raise
            return Given(says=f"{denied}", ran=False)
        except ToolRaised as raised:
            return Given(says=f"{call.name} failed: {raised}", failed=True)
        except ActionFailed as failed:
            return Given(says=f"{failed.error or failed}", failed=True)
        except OutcomeUnknown as unknown:
            return Given(says=f"{unknown}. Do not call it again.", failed=True)

    async def _made(
        self, call: ToolCall, make: Make, proposal: Proposal, keep: Callable[[Any], Json], patience: float | None
    ) -> Given:
        if proposal.is_done:
            return Given(proposal.result, _changed(proposal.request))
        try:
            async with proposal.execution(patience) as running:
                value = await self._called(call, make, running)
                running.result = keep(value)
        except AlreadyDecided:
            # The same call beside this one was faster; what came of that is what came of this.
            again = await self.proposed(call)
            if again.proposal is None or not again.proposal.is_done:
                raise
            proposal = again.proposal
            return Given(proposal.result, _changed(proposal.request))
        return Given(value, _changed(proposal.request))

    async def _called(self, call: ToolCall, make: Make, running: Running) -> Any:
        """What the tool gave. Our own errors that come out of it are its errors, and no word about this call."""
        try:
            return await (self._other(running) if running.action != call.name else make(dict(running.args)))
        except AssentryError as problem:
            if isinstance(problem, Denied) and problem.stop:
                raise
            raise ToolRaised(str(problem)) from problem

    async def _other(self, running: Running) -> Any:
        """An option that was chosen runs another action, which is guarded here."""
        tool = self.gate.tool_named(running.action)
        signature = tool.signature
        assert signature is not None  # noqa: S101  a guarded function has one
        return await resolved(await in_thread(tool.call, signature.values(running.args), {}))


def for_model(problem: AssentryError) -> str:
    """What the model is told where its call was turned away before anything ran; else the problem is raised again."""
    is_over = isinstance(problem, LeaseLost) or (isinstance(problem, Conflict) and problem.state == "lost")
    if isinstance(problem, Conflict | InvalidArguments) and not is_over:
        return f"This call did not run: {problem}."
    if isinstance(problem, Denied) and not problem.stop:
        return f"{problem}"
    raise problem


def _changed(request: Request | None) -> str:
    if request is None or request.candidate.args_text == request.ask.candidate.args_text:
        return ""
    return changed_words(restore(request.candidate.args_text))


def kept(value: Any) -> Json:
    """What a tool returned as it can be kept: as JSON (models, dates and the like as well), or in its own words."""
    try:
        return restore(canonical(to_jsonable_python(value, bytes_mode="base64", fallback=str)))
    except (InvalidArguments, ValueError):
        return whole(str(value))


def whole(text: str) -> str:
    """The text without halves of characters, which cannot be kept."""
    return text.encode(errors="replace").decode()


def as_text(value: Any) -> str:
    """What a model reads of a result."""
    return value if isinstance(value, str) else canonical(kept(value))


def plain_args(args: Any) -> dict[str, Json]:
    """Arguments as a framework has them, as JSON."""
    made = restore(canonical(args))
    if not isinstance(made, dict):
        raise InvalidArguments("the arguments of a tool are given by name")
    return made


def _starts_again(request: Request) -> bool:
    return request.state is State.FAILED and request.error.startswith(f"{StartsAgain.__name__}:")
