"""Backends: one folder per library or target; they never import each other."""
