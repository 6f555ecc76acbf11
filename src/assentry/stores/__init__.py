"""Where state, entries and wake-ups are committed together: `sqlite` for one machine, `postgres` for more.

Both keep one contract, `assentry.testing.store_contract`. Nothing here decides anything.
"""
