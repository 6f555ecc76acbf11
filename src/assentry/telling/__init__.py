"""Requests and runs in words, the same on every surface: what is said, not how it is drawn."""
