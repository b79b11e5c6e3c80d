"""Pages and drawings, with nothing from elsewhere."""
