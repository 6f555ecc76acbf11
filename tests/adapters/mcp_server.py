"""A small MCP server on standard input and output, made with the official package; it notes down what it really did."""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("files")
LEDGER = Path(sys.argv[1])
WORDS = sys.argv[2] if len(sys.argv) > 2 else "Deletes files for good."


@server.tool()
def list_files(folder: str) -> list[str]:
    """Lists the files in a folder."""
    return [f"{folder}/a.txt", f"{folder}/b.txt"]


@server.tool(description=WORDS)
def delete_files(paths: list[str]) -> str:
    with LEDGER.open("a") as ledger:
        ledger.write(f"{','.join(paths)}\n")
    return f"deleted {len(paths)}"


@server.tool()
def fail_to_delete(path: str) -> str:
    """Deletes a file, and fails."""
    raise RuntimeError(f"no {path}")


if __name__ == "__main__":
    server.run("stdio")
