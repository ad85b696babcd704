"""What the kernel is asked to take away from the server and its workers, where it allows that.

The grammar is the boundary: no text is ever run. This is the second wall, and `Pool.isolation` says which parts stand.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWIPC = 0x10000000, 0x40000000, 0x08000000
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38


def isolate() -> list[str]:
    """Leave network and privileges; returns what succeeded, of `no new privileges`, `own user`, `no network`."""
    active = []
    with contextlib.suppress(OSError, AttributeError):  # not Linux, or not allowed
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) == 0:
            active += ["own user", "no network"]  # a user without any right outside; a network without any device
        elif libc.unshare(CLONE_NEWNET) == 0:
            active.append("no network")
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
            active.append("no new privileges")
    with contextlib.suppress(OSError):
        os.chdir("/")
    return active
