"""A payment agent pays five invoices: within its budget alone, beyond it with one person, large ones with two.

    python examples/payments.py            you decide as Ann, in a second terminal; Bo agrees with you
    python examples/payments.py --script   scripted people decide

All of it is policy: payments.yaml, beside this file. What a call costs is said with it and added up over the run;
above the budget even a small invoice waits. A large one takes two distinct people, who type what they confirm.
"""

from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="payments", policy="payments.yaml")

INVOICES = [
    {"invoice": "R-101", "to": "Paper & Co", "amount": 80.0},
    {"invoice": "R-102", "to": "Cleaning", "amount": 140.0},
    {"invoice": "R-103", "to": "Phone", "amount": 95.0},
    {"invoice": "R-104", "to": "Travel", "amount": 240.0},
    {"invoice": "R-105", "to": "Machines", "amount": 2400.0},
]


@gate.guard(
    reversible=False,
    reach="service",
    outside=True,
    money=True,
    says="Pay {facts.amount} to {to} for invoice {invoice}",
)
async def pay_invoice(invoice: str, to: str, amount: float, currency: str = "EUR") -> str:
    # A bank that knows idempotency keys gets assentry.idempotency_key(), and pays once whatever happens.
    return did(f"paid {amount:.2f} {currency} to {to} for {invoice}")


async def work(invoices: list[dict[str, Any]]) -> dict[str, list[str]]:
    outcome: dict[str, list[str]] = {"paid": [], "left": []}
    for invoice in invoices:
        try:
            await pay_invoice.with_(key=invoice["invoice"], cost=invoice["amount"])(**invoice)
            outcome["paid"].append(invoice["invoice"])
        except assentry.Denied as denied:
            outcome["left"].append(f"{invoice['invoice']}: {denied.reason}")
    return outcome


@gate.host("payments")
async def resume(state: dict[str, Any], resumption: Any) -> dict[str, list[str]]:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state["invoices"])


async def begin() -> None:
    async with gate.run("Pay the invoices of this week", host="payments") as run:
        run.snapshot({"invoices": INVOICES})
        run.outcome = await work(INVOICES)


SCRIPT = [Says("approve", by="ann"), Says("approve", by="ann"), Says("approve", by="bo")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
