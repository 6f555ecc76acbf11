"""Assentry on another machine, over HTTP."""
