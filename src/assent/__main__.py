"""`python -m assent` is the `assent` command."""

from assent.cli import main

main()
