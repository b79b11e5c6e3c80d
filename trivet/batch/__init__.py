"""Batch evaluation of logs: blocks of rows in, verdicts out, in runs that can be resumed."""
