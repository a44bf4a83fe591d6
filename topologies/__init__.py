"""Topologies: one file and one YAML each, the first users of the simulator's own plug-in interface."""

from topologies.fractional_torus import FractionalTorus3D
from topologies.nvswitch import NVSwitch
from topologies.ring import Ring
from topologies.torus import Torus3D

__all__ = ["FractionalTorus3D", "NVSwitch", "Ring", "Torus3D"]
