"""What `trivet calibrate` fits, checks and reports."""
