"""Policies that answer without understanding: what an accuracy is to be compared with."""
