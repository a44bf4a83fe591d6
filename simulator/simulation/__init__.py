"""From an experiment to its result: draws, two engines that agree bit for bit, measures, closed forms."""

from simulator.names import refuse

__getattr__ = refuse(__name__)
