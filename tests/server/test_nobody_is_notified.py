"""There are no channels yet, so no log entry, page or document says that somebody was reminded or told."""

import asyncio
import re

import pytest

from assentry.core.authority import Principal
from assentry.engine.deadlines import sweep
from assentry.engine.policies import apply_policy
from assentry.telling.log_words import _SENTENCES, in_words, read
from tests.server.reception import POLICY, Reception
from tests.stage import PATIENCE

PAGE = {"accept": "text/html"}
CLAIM = re.compile(
    r"\b(was|were|been|are|is) (told|reminded|notified|informed|alerted|messaged|e-?mailed)\b|\b(reminds?|notifie[sd]) ",
    re.IGNORECASE,
)
LADDER = """
rules:
  - name: slow
    actions: ["slow_*"]
    gate: hard
    reviewers: ["team:platform"]
    ladder: [{after: 1s, remind: true}, {after: 2s, tell: ["team:billing"]}, {after: 3s, rota: [cem, bea]}]
    limit: 1h
"""


async def test_after_a_whole_ladder_no_surface_claims_that_anybody_heard_of_it(desk: Reception) -> None:
    room = await desk.premises.room("default")
    await apply_policy(desk.premises.store, "default", POLICY.replace("rules:\n", LADDER.lstrip()), Principal("ann"))
    await room.desk.judgement.refresh()
    await desk.gate._judgement.refresh()
    asked = await desk.asked("slow_move", shelf=1)
    async with asyncio.timeout(PATIENCE):
        while (await desk.now(asked)).rung < 3:
            await sweep(desk.premises.store, "default")
            await asyncio.sleep(0.02)
    await desk.premises.store.sequence("default")
    entries = await desk.premises.store.entries("default", subject=asked.id)
    lines = [read(logged) for logged in entries]
    assert [line.kind for line in lines] == [
        "request.asked", "request.reminder_due", "request.widened", "request.widened",
    ]  # fmt: skip
    assert in_words(lines[1]).endswith("slow_move: nobody has decided; a reminder is due")
    assert in_words(lines[2]).endswith("slow_move: nobody has decided; it may now also be decided by team:billing")
    assert "notified" not in lines[1].body
    sent = {**await desk.browsing("operator"), **PAGE}
    pages = ["/", f"/r/{asked.code}", "/log", f"/log?request={asked.code}", "/policy"]
    for path in pages:
        answer = await desk.client.get(path, headers=sent)
        assert answer.status_code == 200, path
        text = re.sub(r"<[^>]+>", " ", answer.text)
        assert not CLAIM.search(text), (path, CLAIM.search(text))
    explained = await desk.post("/policy/explain", {"action": "slow_move", "args": {}}, "operator")
    assert "after 1 s a reminder is due" in explained["ladder"]
    assert "team:billing may also decide" in explained["ladder"]
    assert not CLAIM.search("\n".join(explained["lines"]))


@pytest.mark.parametrize("kind", sorted(_SENTENCES))
def test_no_sentence_of_the_log_claims_a_notification(kind: str) -> None:
    assert not CLAIM.search(_SENTENCES[kind])
