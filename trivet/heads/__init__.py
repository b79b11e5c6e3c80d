"""The heads and their losses."""
