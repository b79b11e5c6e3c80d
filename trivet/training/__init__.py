"""Training: the Lightning module, its callbacks and the bundle of a run."""
