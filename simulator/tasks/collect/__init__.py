"""``+experiment=collect``: the table of a sweep."""
