"""The labeller of the demo: a batch of which a person looks at samples, and at the end at the whole, if they like."""

import argparse
import json
from pathlib import Path
from typing import Any

import assentry
from assentry.core.text import counted
from assentry.demo.process import going, play, step, tell

LABELS = Path("labels.json")
MESSAGES = """\
my invoice has the wrong address
the page does not load
please send the invoice again
I want my money back
the shop does not load on my phone
thank you, it works now
where is my invoice
money back or I complain""".splitlines()

WORDS = {"invoice": "billing", "load": "technical", "thank": "praise", "money": "spam"}
"""What the agent goes by: a model would be wrong in the same way, and no less sure of it."""


def label(text: str) -> str:
    """The label that the agent would give."""
    return next(word for known, word in WORDS.items() if known in text)


def save_labels(labels: dict[str, str]) -> str:
    """Write the labels down."""
    LABELS.write_text(json.dumps(labels), encoding="utf-8")
    return f"{counted(len(labels), 'label')} written"


def drop_labels(_: assentry.Done) -> None:
    """As if nothing had been labelled."""
    LABELS.unlink()


async def work(gate: assentry.Gate, given: argparse.Namespace) -> None:
    """Labels a batch of messages."""
    saving = gate.guard(
        save_labels, reversible=True, reach="local", undo=drop_labels, says="Write {labels.count} labels"
    )
    made: dict[str, str] = {}
    looked = 0
    tell("started", resumed=False)
    async with going(gate, "Label the messages of today", key="labels", original="Sort today's messages") as run:
        await run.plan(["label eight messages", "have the labels looked at"])
        for number, text in enumerate(MESSAGES, 1):
            made[text] = label(text)
            if number % 4:
                continue
            sample = run.sampled(number, given=text, made=made[text], every=4)
            if await step("sample", sample, lambda _: "looked at: fine", given.pause) is None:
                break  # there is a problem: the batch ends here, and what was labelled stays
            looked += 1
        await run.ticked("label eight messages")
        shown: dict[str, Any] = {"labelled": len(made), "of": len(MESSAGES), "labels": made}
        looking = run.checkpoint("labels ready", shown, soft=True)
        if await step("checkpoint", looking, lambda _: "nobody objects to the labels", given.pause) is not None:
            await step(saving.name, saving.acall(made), str, given.pause)
        await run.ticked("have the labels looked at")
        run.outcome = {"labelled": len(made), "looked at": looked}
    tell("finished", ran=len(made), of=len(MESSAGES))


if __name__ == "__main__":
    play(work)
