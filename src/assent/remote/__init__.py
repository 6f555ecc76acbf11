"""Assent on another machine, over HTTP."""
