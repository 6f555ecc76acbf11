"""The store contract: what any store must do, run in full against a real one.

A suite subclasses `StoreContract`, gives a fixture `place` (anything that says where, new for each test) and the
methods of `StorePlace`. The parts live beside this file by subject: requests, the log, watching and lifetime.
"""

from assentry.testing.store_contract_callers import Callers
from assentry.testing.store_contract_credentials import Credentials
from assentry.testing.store_contract_lists import Lists
from assentry.testing.store_contract_log import Log
from assentry.testing.store_contract_place import StorePlace
from assentry.testing.store_contract_proposals import Proposals
from assentry.testing.store_contract_requests import Requests
from assentry.testing.store_contract_runs import Runs
from assentry.testing.store_contract_switches import Switches
from assentry.testing.store_contract_use import Use

__all__ = ["StoreContract"]


class StoreContract(Requests, Lists, Log, Use, Runs, Switches, Credentials, Proposals, Callers, StorePlace):
    """All of it."""
