"""Export targets, graph rewriting and the comparison with the trained weights."""
