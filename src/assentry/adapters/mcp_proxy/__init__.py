"""In front of MCP servers: what the client sends is relayed, and calls of tools are judged on the way."""
