"""Measures Assentry beside its peers, on the machine it is run on. Start with `run.py`."""
