"""`python -m specvet`: the same as `specvet`, with this very interpreter."""

import sys

from specvet.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
