"""Interchange interventions: which variables of the VM a model uses, and a score for features of states."""
