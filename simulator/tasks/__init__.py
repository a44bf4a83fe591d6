"""What ``+experiment=NAME`` starts: a folder for each task, which nothing but YAML names."""
