"""Assembly: the trunk, the joining, the model and the bundle it is stored in."""
