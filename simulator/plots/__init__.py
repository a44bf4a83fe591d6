"""Pictures: everything that knows matplotlib. What is drawn comes ready; nothing is computed here."""

from simulator.plots.curves import write_pictures
from simulator.plots.simulation import draw_overlapping, draw_stacked, draw_tax, draw_waterfall, write

__all__ = ["draw_overlapping", "draw_stacked", "draw_tax", "draw_waterfall", "write", "write_pictures"]
