"""What surrounds the model while it is trained."""
