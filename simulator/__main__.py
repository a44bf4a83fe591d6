"""``python -m simulator``: the command of app.py."""

import sys

from simulator.app import main

if __name__ == "__main__":
    sys.exit(main())
