"""One thread a test process: there are as many processes as cores."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
