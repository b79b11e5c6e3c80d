"""Chat with a language model behind any OpenAI-compatible endpoint: client, cache and budget."""
