"""``python -m simulator``: the command."""

import sys

if __name__ == "__main__":
    try:
        from simulator.command.app import main

        sys.exit(main())
    except KeyboardInterrupt:  # before the command could attend to it
        sys.exit(130)
