"""The composer of the demo: asks what it cannot know, writes to a customer, and writes again when it is sent back."""

import argparse
from typing import Annotated, Any

import assentry
from assentry.demo.process import going, play, post, step, tell

FIRST = """\
Dear Ms Okafor,

Your parcel is late. This is due to unforeseen operational circumstances in our logistics network, for which we are
not responsible. It will arrive in due course.

The shop"""


def send_email(to: list[str], subject: str, body: str, server: Annotated[tuple[str, int], assentry.Injected]) -> str:
    """Send an email."""
    post("shop@example.org", to, subject, body, server)
    return f"mailed {', '.join(to)}: {subject}"


def draft_for(day: str, draft: Any) -> dict[str, Any]:
    """The arguments of `send_email`. A model would be given the last draft and the instructions."""
    if draft is None:
        return {"to": ["okafor@example.com"], "subject": "Your parcel", "body": FIRST}
    if draft.number == 1:
        body = f"Dear Ms Okafor,\n\nYour parcel is late, and we are sorry. It arrives: {day.rstrip('.')}.\n\nThe shop"
    else:
        body = f"{draft.args['body']}\n\nPS: {draft.instructions}"
    return {**draft.args, "body": body}


async def work(gate: assentry.Gate, given: argparse.Namespace) -> None:
    """Answers a customer."""
    sending = gate.guard(
        send_email,
        reversible=False,
        outside=True,
        says="Mail {to}: {subject}",
        inject={"server": ("127.0.0.1", given.smtp_port)},
        if_denied="Leave the answer to a person.",
    )
    tell("started", resumed=False)
    original = "Ms Okafor asks where her parcel is. Please answer her."
    async with going(gate, "Answer Ms Okafor", key="answer", original=original) as run:
        await run.plan(["ask when it arrives", "write to her"])
        await run.observed("inbox", "Where is my parcel? It was to be here on Monday. A. Okafor")
        asking = run.ask("When does the parcel of Ms Okafor arrive? In your words, for her.", best_guess="this week")
        day = await step("question", asking, lambda answer: f"answer: {answer}", given.pause) or "this week"
        await run.ticked("ask when it arrives")
        writing = run.revise(sending, lambda draft: draft_for(str(day), draft))
        sent = await step(sending.name, writing, str, given.pause)
        await run.ticked("write to her")
        run.outcome = {"sent": bool(sent)}
    tell("finished", ran=1 + bool(sent), of=2)


if __name__ == "__main__":
    play(work)
