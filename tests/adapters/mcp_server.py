"""A small MCP server made with the official package; it notes down what it really did.

On standard input and output, or at a port: then `json` answers without streams, and `token` lets in who has it.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.responses import PlainTextResponse

server = MCPServer("files")
LEDGER = Path(sys.argv[1])
WORDS = sys.argv[2] if len(sys.argv) > 2 else "Deletes files for good."
PORT = int(sys.argv[3]) if len(sys.argv) > 3 else 0
TOKEN = "Bearer let-me-in"


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


@server.tool()
async def delete_slowly(path: str) -> str:
    """Deletes a file, and never comes back."""
    delete_files([path])
    await asyncio.Event().wait()
    return ""


@server.tool()
async def list_news(ctx: Context) -> str:
    """Lists what is new, and tells everybody beside it that the tools are others."""
    await ctx.session.send_tool_list_changed()
    return "nothing"


@server.resource("notes://today")
def today() -> str:
    """What is on today."""
    return "a quiet day"


@server.prompt()
def tidy(folder: str) -> str:
    """How to tidy up."""
    return f"Tidy up {folder}."


def guarded(app: Any) -> Any:
    """The app, for those who have the token."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and dict(scope["headers"]).get(b"authorization") != TOKEN.encode():
            return await PlainTextResponse("who are you?", 401)(scope, receive, send)
        return await app(scope, receive, send)

    return serve


if __name__ == "__main__":
    if PORT:
        app: Any = server.streamable_http_app(json_response="json" in sys.argv)
        uvicorn.run(guarded(app) if "token" in sys.argv else app, port=PORT, log_level="error")
    else:
        server.run("stdio")
