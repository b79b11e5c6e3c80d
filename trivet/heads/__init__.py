"""The heads: what each reads, its target and its loss."""
