"""Circuits: which edges between the parts of a model carry a variable of the VM."""
