"""Datasets of true programs: sampling, shards, disjoint splits, the manifest, reading."""
