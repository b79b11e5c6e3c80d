"""Random changes of labelled rows for training, with labels that stay true."""
