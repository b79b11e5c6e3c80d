"""Labelled data: sources, labels, augmentation and batches."""
