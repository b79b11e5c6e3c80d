"""The three heads and their losses."""
