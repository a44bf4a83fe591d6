"""What a collective costs: algorithms as rounds and volume, topologies that offer them, machines."""
