"""A browser on the desktop of whoever started the server; on a machine without one there is nothing to wait for."""

import os
import sys
import threading
import webbrowser
from collections.abc import Mapping


def show(link: str) -> bool:
    """Whether there is a desktop; the link is being opened in its browser. It never keeps anybody waiting."""
    if not has_desktop(os.environ, sys.platform):
        return False
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(found) is webbrowser.GenericBrowser:  # one that takes over the terminal and stays until it is closed
        return False
    # A thread that nobody waits for: a browser that does not come back keeps no program from ending.
    threading.Thread(target=found.open, args=(link,), daemon=True, name="browser").start()
    return True


def has_desktop(environment: Mapping[str, str], platform: str) -> bool:
    """Somebody sits before a screen with windows, on this machine."""
    if platform == "darwin":
        return "SSH_CONNECTION" not in environment
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))
