"""``python -m simulator``: the command."""

import os
import sys

if __name__ == "__main__":
    try:
        checkout = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        if sys.path[0] == os.getcwd() != checkout:
            # It may have come with traces of others: only named plug-ins are imported from there, also by workers.
            del sys.path[0]
            os.environ["PYTHONSAFEPATH"] = "1"
        from simulator.command.app import main

        sys.exit(main())
    except KeyboardInterrupt:  # before the command could attend to it
        sys.exit(130)
