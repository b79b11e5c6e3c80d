"""The data engine: a language model labels, answers and edits, and a person reviews."""
