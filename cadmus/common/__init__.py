"""Shared helpers: files, progress, random streams, provenance, cores, source files."""
