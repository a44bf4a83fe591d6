"""Pictures: what they show (panels), and how it is drawn. The only place that knows matplotlib."""

from simulator.names import refuse

__getattr__ = refuse(__name__)
