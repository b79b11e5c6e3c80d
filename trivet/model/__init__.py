"""The model: trunk, heads and the joining of windows."""
