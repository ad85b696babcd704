"""One thread a test process, as there are as many as cores, and names of tests that each process makes alike."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes that no one can read, which may hold a clock (gzip's header does), are numbered instead of shown."""
    return argname if isinstance(val, bytes) and not (val.isascii() and val.decode("ascii").isprintable()) else None
