"""What is measured, on which rows, and how sure it is."""
