"""Clients of a Trivet server, with the methods of ``Evaluator``; they load no model."""
