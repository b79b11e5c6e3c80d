"""Measures, their samples and their intervals."""
