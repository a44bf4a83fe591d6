"""``+experiment=calibrate``: latency and bandwidth of a link, from measured collectives."""
