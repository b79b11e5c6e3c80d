"""Grids of training runs, and their comparison."""
