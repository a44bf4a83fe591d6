"""A picture: the tax of a sweep over n, ``python sweep_picture.py multirun/SWEEP``."""

import sys
from pathlib import Path

import pandas as pd

from simulator import Panel, Picture, write_pictures

folder = Path(sys.argv[1])
sweep = pd.read_csv(folder / "sweep.csv")
curves = [
    pd.DataFrame({"series": sweep.law, "style": style, "x": sweep.n, "y": sweep[column] * 1e6})
    for style, column in (("points", "wait_mean"), ("line", "wait_model"))
]
tax = Panel(
    table=pd.concat(curves),
    x="ranks in the scale-up domain",
    y="synchronization tax, µs",
    log_x=True,
    styles={"points": "simulated", "line": "closed form"},
)
growth = sweep.wait_mean.max() / sweep.wait_mean.min()
title = f"The tax grows {growth:.1f}-fold from {sweep.n.min()} to {sweep.n.max()} ranks"
write_pictures([Picture(name="my_tax", title=title, subtitle="mean wait of a rank", panels=[tax])], folder)
