"""Who runs this process, as the operating system says."""

import os
from contextlib import suppress

from assentry.system import HAS_MODES

with suppress(ImportError):  # Windows
    import pwd


def os_user() -> str:
    """The operating-system user this process runs as, asked of the system and not of the environment."""
    if not HAS_MODES:
        return os.getlogin()  # on Windows the user of the process; elsewhere it would be the terminal's
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user that nobody entered
        return f"uid:{os.getuid()}"
