"""An infrastructure agent wants to delete 47 "unused" instances. They are the standby of a database.

    python examples/infrastructure.py            you decide, in a second terminal
    python examples/infrastructure.py --script   a scripted person decides

The agent only sees that nothing uses the processors. The card also says what it did not look at: a lookup of your own
asks the inventory, and what that answers stands among the facts, apart from what the agent claims. Deny it, or choose
what happens instead; the agent plans on without it.
"""

from collections import Counter
from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="infrastructure")

STANDBY = {"role": "standby", "cluster": "orders-db", "lag": "0 s", "last failover": "9 days ago"}
BUILD = {"role": "build", "cluster": "", "lag": "", "last failover": ""}
CLOUD = {f"i-{n:03}": {"cpu": 0.4, **(STANDBY if n < 47 else BUILD)} for n in range(50)}


def inventory(args: dict[str, Any]) -> list[assentry.Fact]:
    """What these instances are. The agent has no say in it."""
    machines = [CLOUD[name] for name in args["instances"]]
    facts = []
    for tag in ("role", "cluster", "lag", "last failover"):
        found = Counter(machine[tag] for machine in machines if machine[tag])
        if found:
            says = ", ".join(f"{tag} {value}: {count} of {len(machines)}" for value, count in found.items())
            facts.append(assentry.Fact(tag.replace(" ", "_"), list(found), says, hurts="standby" in found))
    return facts


@gate.guard
async def list_instances(below_cpu: float) -> list[str]:
    """List instances whose processors did less than this in the last 30 days."""
    return [name for name, machine in CLOUD.items() if machine["cpu"] < below_cpu]


@gate.guard(reversible=True, reach="service", says="Stop {instances.count} instances; their disks stay")
async def stop_instances(instances: list[str]) -> str:
    return did(f"stopped {len(instances)} instances, {instances[0]} to {instances[-1]}")


@gate.guard(
    reversible=False,
    reach="organisation",
    says="Delete {instances.count} instances",
    facts=inventory,
    options=lambda args: [
        assentry.option("Delete them", "They and their disks are gone.", {}),
        assentry.option("Stop them instead", "They start again within minutes.", dict(args), instead=stop_instances),
        assentry.option("Leave them alone", "Nothing changes."),
    ],
)
async def delete_instances(instances: list[str]) -> str:
    return did(f"deleted {len(instances)} instances, {instances[0]} to {instances[-1]}")


@gate.guard(reversible=True, reach="service")
async def open_ticket(title: str) -> str:
    """Open a ticket with the platform team."""
    return did(f"ticket: {title}")


async def work(state: dict[str, Any]) -> dict[str, str]:
    """The agent: a script where yours has a model. Resumed, it takes its steps again; those on record do not run."""
    batch, rest = state["unused"][:47], state["unused"][47:]
    ticket = await open_ticket(f"{len(batch) + len(rest)} instances seem unused")
    try:
        first = await delete_instances.with_(
            why="Nothing used their processors for 30 days.", confidence=0.97, alternatives=["stop them"]
        )(batch)
    except assentry.Denied as denied:
        first = await open_ticket(f"{len(batch)} instances stay: {denied.reason}")
    return {"ticket": ticket, "first": first, "rest": await stop_instances(rest)}


@gate.host("infrastructure")
async def resume(state: dict[str, Any], resumption: Any) -> dict[str, str]:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state)


async def begin() -> None:
    async with gate.run("Save money on unused instances", host="infrastructure") as run:
        state = {"unused": await list_instances(below_cpu=1.0)}
        run.snapshot(state)  # what was read: reading again might find something else
        run.outcome = await work(state)


SCRIPT = [Says("deny", "they are the standby of orders-db: keep them")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
