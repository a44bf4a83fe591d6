"""The seed paper's recipe (section 5): a Gumbel or GEV law of the maxima of m ranks, and what ranks share."""
