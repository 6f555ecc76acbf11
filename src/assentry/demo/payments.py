"""The payments agent of the demo: one invoice too large for a click, and two expenses that resemble each other."""

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

import assentry
from assentry.demo.process import going, play, step, tell

INVOICES = Path("invoices.json")
PAID = Path("payments.jsonl")
BETWEEN = 1.0
"""Seconds before the next one, whatever the speed: who approves and allows similar gives leave just after approving."""


def list_open() -> list[dict[str, Any]]:
    """List what is still to be paid."""
    found: list[dict[str, Any]] = json.loads(INVOICES.read_text(encoding="utf-8"))
    return found


def pay_invoice(invoice: str, to: str, amount: float, currency: str) -> str:
    """Pay an invoice by bank transfer."""
    return _paid(invoice, to, amount, currency)


def reimburse(expense: str, to: str, amount: float, currency: str) -> str:
    """Pay somebody back what they laid out."""
    return _paid(expense, to, amount, currency)


def _paid(what: str, to: str, amount: float, currency: str) -> str:
    with PAID.open("a", encoding="utf-8") as file:  # the demo's bank
        file.write(json.dumps({"what": what, "to": to, "amount": amount, "currency": currency}) + "\n")
    return f"paid {amount:,.2f} {currency} to {to} for {what}"


async def work(gate: assentry.Gate, given: argparse.Namespace) -> None:
    """Pays what is due."""
    money: Any = {"reversible": False, "reach": "service", "outside": True, "money": True}
    reading = gate.guard(list_open)
    paying = gate.guard(
        pay_invoice,
        says="Pay {facts.amount} to {to} for invoice {invoice}",
        if_denied="The invoice stays open, and accounting is told.",
        **money,
    )
    # How risky this is, the policy says: small sums to our own people.
    reimbursing = gate.guard(reimburse, says="Pay {facts.amount} back to {to} for {expense}")
    paid = left = 0
    tell("started", resumed=False)
    async with going(gate, "Pay what is due", key="payments", original="Pay the open invoices and expenses") as run:
        due = await reading.acall()
        await run.plan([f"pay {each['to']}" for each in due])
        for each in due:
            call: Any
            if "invoice" in each:
                call = paying.with_(why="It is due today, and there is a reminder fee after that.", confidence=0.92)
            else:
                call = reimbursing.with_(why="The receipt was handed in and the amount matches it.", confidence=0.97)
            did = await step(call.name, call.acall(**each), str, given.pause)
            await run.ticked(f"pay {each['to']}")
            paid, left = paid + bool(did), left + (not did)
            await asyncio.sleep(BETWEEN)
        run.outcome = {"paid": paid, "left": left}
    tell("finished", ran=paid, of=paid + left)


if __name__ == "__main__":
    play(work)
