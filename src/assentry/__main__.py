"""`python -m assentry` is the `assentry` command."""

from assentry.cli import main

main()
