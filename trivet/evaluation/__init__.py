"""Texts to verdicts: preprocessing, packing, inference and postprocessing."""
