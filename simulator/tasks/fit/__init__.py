"""From measured compute blocks to a law of compute times: ``+experiment=fit``."""
