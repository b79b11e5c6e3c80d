"""Other evaluators of faithfulness behind one call, compared by ``trivet compare``."""
