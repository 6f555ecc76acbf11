"""Where a run stops for a person: an action that does nothing, so everything that holds for actions holds for it."""

from collections.abc import Mapping
from dataclasses import replace

from assentry.core.action import Declaration, Json, Reach
from assentry.core.canonical import canonical, restore
from assentry.core.request import Request, State
from assentry.core.secret_text import holds_any_secret, holds_secret, is_secret_name, without_secrets
from assentry.core.verdict import GateKind, Trigger
from assentry.engine.asking import Prepared
from assentry.engine.calls import Calls
from assentry.engine.guard import CONTEXT, in_run
from assentry.engine.holding import HeldRun
from assentry.engine.judgement import Context
from assentry.engine.office import NotAsked, StopPoint
from assentry.engine.proposal import Proposal
from assentry.engine.tool import tool
from assentry.errors import Denied, OutcomeUnknown

NOTHING = Declaration(True, Reach.NOTHING, False, False)


async def stopped_at(
    calls: Calls, fallback: Context, active: HeldRun, point: StopPoint
) -> tuple[str, Mapping[str, Json]]:
    """What a person said where a run stopped: the option they chose, if any, and what was shown as they left it.

    A point without a gate of its own only stops where policy says so.
    """
    args = restore(canonical(point.args))
    prepared = stop_call(calls, fallback, active, point)
    if prepared is None:
        return "", args
    request: Request | None = None
    caller = calls.caller_of(prepared.context)
    try:
        async with active.waiting():
            request, _ = made = await active.once_going(lambda: calls.submit(prepared, start=False, caller=caller))
            if made[0].state is not State.DONE:
                async with Proposal(calls, prepared, made[0], counts=False).execution() as running:
                    running.result = dict(running.args)
                return "", running.args
    except OutcomeUnknown:
        # Its process vanished between the decision and the next step; the decision stands.
        request = await calls.store.request(calls.workspace, request.id) if request is not None else None
    except Denied as denied:
        chosen = await calls.store.request(calls.workspace, denied.request_id)
        if chosen is not None and chosen.chosen is not None:
            return chosen.ask.options[chosen.chosen].label, args
        raise
    return "", restore(request.candidate.args_text) if request is not None else args


async def put_stop(calls: Calls, fallback: Context, active: HeldRun, point: StopPoint) -> Request | None:
    """The request of this point, on record and not waited for; none where nobody has to be asked."""
    prepared = stop_call(calls, fallback, active, point)
    if prepared is None:
        return None
    caller = calls.caller_of(prepared.context)
    request, _ = await active.once_going(lambda: calls.submit(prepared, start=False, caller=caller))
    return request


def stop_call(calls: Calls, fallback: Context, active: HeldRun, point: StopPoint) -> Prepared | None:
    """The call that stands for this point, judged and not yet on record; none where nobody has to be asked.

    Raises `NotAsked` where whoever stopped here wants to be told of that.
    """
    args = restore(canonical(point.args))
    # A secret is sealed among the arguments; it must not stand in the clear beside them.
    fixed = {name: _fixed(name, value) for name, value in args.items() if name not in point.editable}
    schema = {"type": "object", "properties": fixed}
    options = tuple(
        replace(each, label=without_secrets(each.label), consequence=without_secrets(each.consequence))
        for each in point.options
    )
    stop = tool(
        point.kind, schema=schema, schema_text=canonical(schema), says="", options=options,
        declared=NOTHING,
    )  # fmt: skip
    fired = (Trigger(point.kind, without_secrets(point.why), point.gate),) if point.gate.holds else ()
    context = replace(CONTEXT.get() or fallback, key=point.key, draft_of=point.draft_of)
    prepared = calls.prepare(stop, args, in_run(context, active, point.kind, args), {}, fired)
    if point.insists and not prepared.verdict.gate.holds:
        raise NotAsked
    if prepared.verdict.gate is GateKind.RUN:
        return None
    return replace(prepared, tool=replace(stop, says=_plain_template(without_secrets(point.says))))


def _fixed(name: str, value: Json) -> dict[str, Json]:
    """The schema of a value that must stay as it is, in which no secret stands; a secret itself is not held fast."""
    if not holds_any_secret({name: value}):
        return {"const": value}
    if is_secret_name(name) or not isinstance(value, Mapping) or any(holds_secret(key) for key in value):
        return {}
    fields = {key: _fixed(key, each) for key, each in value.items()}
    return {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}


def _plain_template(text: str) -> str:
    """`text` as a template that fills nothing in."""
    return text.replace("{", "{{").replace("}", "}}")
