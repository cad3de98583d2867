"""Helpers without a subject of their own: files, progress, provenance, cores, sources."""
