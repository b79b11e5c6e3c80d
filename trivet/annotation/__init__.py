"""Labels for a log by a language model, with checks."""
