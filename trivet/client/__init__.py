"""The calls of an ``Evaluator``, answered by a server: no engine and no bundle are needed here."""
