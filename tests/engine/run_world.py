"""The world of a run: guarded functions that keep a record of what they did."""

import assentry


class World:
    """What guarded functions did."""

    def __init__(self, gate: assentry.Gate) -> None:
        self.did: list[str] = []

        @gate.guard
        async def find_files(pattern: str) -> list[str]:
            """Find files."""
            return [f"{pattern}{n}" for n in range(3)]

        @gate.guard(reversible=True, reach="local")
        async def move_file(path: str) -> str:
            self.did.append(f"move {path}")
            return path.upper()

        @gate.guard(reversible=False)
        async def delete_files(files: list[str]) -> int:
            self.did.append(f"delete {len(files)}")
            return len(files)

        self.find, self.move, self.delete = find_files, move_file, delete_files
