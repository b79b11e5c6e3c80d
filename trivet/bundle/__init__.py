"""A model on disk: schema, manifest, model card, self-test and weights."""
