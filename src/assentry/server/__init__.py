"""The server: an API for agents and for people, and the pages where people decide."""
