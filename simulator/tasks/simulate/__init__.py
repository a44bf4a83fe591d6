"""``+experiment=simulate``, the default: a simulation, with the files it may leave."""
