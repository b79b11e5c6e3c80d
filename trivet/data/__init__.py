"""Text to numbers: tokens, sentences, windows and spans."""
