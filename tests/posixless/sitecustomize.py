"""Makes a Python process on Linux as poor as one on Windows: put this directory first on PYTHONPATH.

Modules, signals and functions that only POSIX has are gone, for Assentry and for every library that it imports; child
processes are the same. What the standard library needs of them to work on this system is loaded before. What is not
played: Windows' own file system, its consoles and its event loop.
"""

import asyncio
import concurrent.futures.process
import getpass  # noqa: F401
import importlib.abc
import logging.handlers  # noqa: F401
import multiprocessing  # noqa: F401
import os
import pathlib  # noqa: F401
import select
import shutil  # noqa: F401
import signal
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import uuid  # noqa: F401

MODULES = (
    "fcntl", "grp", "inotify_simple", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty",
)  # fmt: skip
FUNCTIONS = {
    os: (
        "chown", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getpgid", "getuid", "killpg",
        "mkfifo", "openpty", "pread", "pwrite", "setsid", "ttyname", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW",
    ),
    select: ("poll",),
    signal: ("SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGSTOP", "SIGUSR1", "SIGUSR2", "SIGWINCH"),
}  # fmt: skip


class Hidden(importlib.abc.MetaPathFinder):
    """Finds none of `MODULES`, and lets nobody else find them."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def missing(*_, **__):
    raise NotImplementedError


del concurrent.futures.process
for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
for holder, names in FUNCTIONS.items():
    for name in names:
        delattr(holder, name)
os.getlogin = lambda: "ada"  # on Windows the user of the process
for loop in (asyncio.SelectorEventLoop, asyncio.AbstractEventLoop):
    loop.add_signal_handler = loop.remove_signal_handler = missing
    loop.create_unix_server = loop.create_unix_connection = missing
