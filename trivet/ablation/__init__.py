"""What `trivet ablate` runs, keeps and compares."""
