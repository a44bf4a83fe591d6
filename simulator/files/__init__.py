"""What is on disk: folders that are whole or absent, the manifest, points of sweeps, tables."""
