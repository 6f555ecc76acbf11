"""Assent: the human checkpoint for AI agents. Agents act. Humans assent."""
