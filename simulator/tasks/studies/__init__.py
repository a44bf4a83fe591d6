"""Studies: each reproduces one claim or figure of the seed paper, from closed form and from simulation."""
