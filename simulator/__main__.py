"""``python -m simulator``: the command of app.py."""

import sys

if __name__ == "__main__":
    try:
        from simulator.app import main

        sys.exit(main())
    except KeyboardInterrupt:  # before the command could attend to it
        sys.exit(130)
