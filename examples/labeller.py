"""A labeller sorts twelve messages. A person looks at every fourth; where one is wrong, the batch stops there.

    python examples/labeller.py            you decide, in a second terminal
    python examples/labeller.py --script   a scripted person decides

Denying a sample says "there is a problem". What was labelled is kept, and laid before a person who can correct it;
the corrections are written, the agent learns from them, and goes on behind the last message.
"""

from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="labeller")

MESSAGES = """\
my invoice has the wrong address
the page does not load
please send the invoice again
I want my money back
the button does nothing
the shop does not load on my phone
can I have my money back for order 7
money back, please
thank you, it works now
where is my invoice
it does not load since yesterday
money back or I complain""".splitlines()

WORDS = {"invoice": "billing", "load": "technical", "button": "technical", "thank": "praise", "money": "spam"}
"""What the agent goes by: a model would be wrong in the same way, and no less sure of it."""


@gate.guard(reversible=True, reach="service")
async def set_label(message: int, label: str) -> str:
    """Set the label of a message; setting another one later is fine."""
    did(f"message {message}: {label}")
    return label


async def work(messages: list[str]) -> dict[str, str]:
    run, words, labels = assentry.current_run(), dict(WORDS), {}
    for number, text in enumerate(messages, 1):
        word = next(word for word in words if word in text)
        labels[str(number)] = await set_label(number, words[word])
        try:
            await run.sampled(number, given=text, made=words[word], every=4)
        except assentry.Denied as problem:
            if not await corrected(run, messages, labels, words, problem.reason):
                break  # nobody mends it: the batch ends here, and what was labelled stays
    return labels


async def corrected(run: Any, messages: list[str], labels: dict[str, str], words: dict[str, str], why: str) -> bool:
    """Whether a person mended what was labelled so far; what they changed was set, and learned from."""
    shown = {number: {"text": messages[int(number) - 1], "label": label} for number, label in labels.items()}
    try:
        right = await run.checkpoint(f"correct the labels: {why}", shown, editable=True)
    except assentry.Denied:
        return False
    for number, label in labels.items():
        if (meant := right[number]["label"]) != label:
            labels[number] = await set_label(int(number), meant)
            words |= {word: meant for word in words if word in messages[int(number) - 1]}
    return True


@gate.host("labeller")
async def resume(state: dict[str, Any], resumption: Any) -> dict[str, str]:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state["messages"])


async def begin() -> None:
    async with gate.run("Label the messages of today", host="labeller") as run:
        run.snapshot({"messages": MESSAGES})
        run.outcome = await work(MESSAGES)


def better(args: dict[str, Any]) -> dict[str, Any]:
    """The checkpoint as the scripted person corrects it."""
    args["show"]["4"]["label"] = "refund"
    return args


SCRIPT = [Says("deny", "a refund is no spam"), Says("modify", better), Says("approve"), Says("approve")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
