"""Inference forms of the encoders, for export."""
