"""Text to numbers: tokens, sentences, windows, spans and labels; sources and logs of examples."""
