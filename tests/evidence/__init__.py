"""Proof by fault injection: nothing runs twice, nothing acknowledged is lost, what is uncertain is UNKNOWN.

`python -m tests.evidence` runs the suites at full size and writes what they found; `test_evidence.py` runs the
same code on samples. Each suite also runs with bugs planted, and fails unless it finds them.
"""
