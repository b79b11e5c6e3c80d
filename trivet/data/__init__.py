"""Text to numbers: sources, tokens, sentences, windows, labels. The only cutting, the only alignment."""
