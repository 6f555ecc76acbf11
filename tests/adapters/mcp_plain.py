"""A small MCP server that needs nothing but Python, so that it is there at once; it notes down what it really did."""

import json
import sys
from pathlib import Path
from typing import Any

TOOLS = [
    {"name": "list_files", "description": "Lists the files in a folder.", "inputSchema": {"type": "object"}},
    {"name": "delete_files", "description": "Deletes files for good.", "inputSchema": {"type": "object"}},
]
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "plain", "version": "1"},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the server says to a request."""
    match method:
        case "initialize":
            return HELLO
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call" if params["name"] == "list_files":
            return {"content": [{"type": "text", "text": "a.txt"}]}
        case "tools/call":
            with Path(sys.argv[1]).open("a") as ledger:
                ledger.write(f"{','.join(params['arguments']['paths'])}\n")
            return {"content": [{"type": "text", "text": "deleted 1"}]}
        case _:
            return {}


if __name__ == "__main__":
    for line in sys.stdin:
        said = json.loads(line)
        if "method" in said and "id" in said:
            result = answer(said["method"], said.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
