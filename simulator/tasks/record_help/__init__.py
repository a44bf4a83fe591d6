"""``+experiment=record_help``: how to record what a trace report and a calibration read."""
