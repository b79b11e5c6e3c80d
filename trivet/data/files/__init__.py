"""Rows of data files: JSON lines, JSON documents, CSV and Parquet, plain or compressed."""
