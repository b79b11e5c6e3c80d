"""Fits of probabilities and thresholds, their errors and their report."""
