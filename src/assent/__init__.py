"""Assent: the human checkpoint for AI agents."""
