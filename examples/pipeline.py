"""A deployment pipeline: a step that the agent is unsure of waits, and so do the edges of the phase that matters.

    python examples/pipeline.py            you decide, in a second terminal
    python examples/pipeline.py --script   a scripted person decides

Three stops: the migration, because the agent says it is 60% sure and policy asks below 70%; before the deployment,
with what it is about; after it, softly: it counts as fine unless somebody objects, and an objection rolls it back.
"""

from typing import Any

import assentry
import playground
from playground import Says, did

playground.enter(__name__)
gate = assentry.open(agent="pipeline")

IN_USE = "shop:9c1e"


@gate.guard(reversible=True, reach="local")
async def build_image(commit: str) -> str:
    return did(f"built shop:{commit}").removeprefix("built ")


@gate.guard(reversible=True, reach="service")
async def run_migration(database: str, statement: str) -> str:
    return did(f"migrated {database}: {statement}")


@gate.guard(reversible=True, reach="service", says="Deploy {image} to {environment}")
async def deploy(image: str, environment: str) -> dict[str, str]:
    did(f"deployed {image} to {environment}")
    return {"image": image, "before": IN_USE, "errors": "0.2% of requests, 0.1% before"}


@gate.guard(reversible=True, reach="service", says="Go back to {image} in {environment}")
async def roll_back(image: str, environment: str) -> str:
    return did(f"rolled {environment} back to {image}")


async def work(commit: str) -> dict[str, str]:
    run = assentry.current_run()
    made: dict[str, str] = {}
    try:
        async with run.phase("build"):
            image = await build_image(commit)
        async with run.phase("migrate"):
            unsure = run_migration.with_(confidence=0.6, why="The index may lock the table for a minute.")
            await unsure("orders", "create index on orders (customer)")
        plan = {"image": image, "environment": "production", "in use": IN_USE, "rollback": "one minute"}
        async with run.phase("deploy", plan, before=True, after="soft") as phase:
            made = phase.result = await deploy(image, "production")
    except assentry.Denied as denied:
        if made:  # somebody objected to what came of it
            await roll_back(made["before"], "production")
        return {"in use": IN_USE, "why": denied.reason}
    return {"in use": image, "why": "deployed, and nobody objected"}


@gate.host("pipeline")
async def resume(state: dict[str, str], resumption: Any) -> dict[str, str]:
    print(f"  resumed {resumption.summary}", flush=True)
    return await work(state["commit"])


ACTIONS = ["build_image", "run_migration", "deploy", "roll_back"]


async def begin() -> None:
    # The scope gives leave for these actions, so that the gates are where the phases say and not at every step.
    async with gate.run("Release 4f2a", scope={"actions": ACTIONS}, host="pipeline") as run:
        await run.plan(["build", "migrate", "deploy"])
        run.snapshot({"commit": "4f2a"})
        run.outcome = await work("4f2a")


SCRIPT = [Says("approve"), Says("approve"), Says("deny", "twice as many errors as before")]

if __name__ == "__main__":
    playground.play(gate, begin, SCRIPT)
