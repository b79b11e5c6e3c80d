"""From a bundle to verdicts: engines, the evaluator, and how verdicts are shown."""
