"""astropy where the home folder may not be entered.

astropy looks below HOME for its configuration while it is imported, and refuses to be imported where it may not look
(containers and batch systems that run as another user). It then gets an empty folder as its home, for that moment.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def astropy_fits() -> Any:
    """The module `astropy.io.fits`."""
    if "astropy.io.fits" not in sys.modules:
        with usable_home():
            pass
    from astropy.io import fits

    return fits


@contextmanager
def usable_home() -> Iterator[None]:
    """HOME and the folders of XDG as they are where astropy may look into them, else an empty folder."""
    if _may_look():
        yield
        return
    kept = {name: os.environ.get(name) for name in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    with tempfile.TemporaryDirectory(prefix="specvet-home-") as folder:
        try:
            for name in kept:
                os.environ.pop(name, None)
            os.environ["HOME"] = os.environ["USERPROFILE"] = folder
            yield
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _may_look() -> bool:
    """Whether the places where astropy looks can be asked for; that they are missing is no trouble."""
    for folder in (".astropy/config", ".config/astropy", ".cache/astropy"):
        try:
            os.stat(Path.home() / folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, RuntimeError):  # RuntimeError: there is no home at all
            return False
    return True
