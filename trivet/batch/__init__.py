"""A whole log judged: blocks of rows in, verdicts out, and a run that can be killed and resumed."""
