"""Shared helpers: files, signals, provenance."""
