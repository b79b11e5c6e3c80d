"""Unlabelled logs: file formats and column mapping."""
