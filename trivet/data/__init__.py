"""Text to numbers: sources, tokens, sentences, windows, labels.

The only cutting and the only alignment in the house.
"""
