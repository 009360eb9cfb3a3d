"""Runs what was compiled; importable without the compiler."""
