"""Adapters for other tools, by tool; a tool is imported when its adapter is used.

A ``judge`` is a ``trivet.Evaluator`` or a ``trivet.Client``; ``None`` uses the embedded bundle.
``options`` are those of its ``evaluate``, such as ``threshold`` and ``strict``.
A ``mapping`` names fields that replace the known ones, such as ``{"question": "prompt"}``.
An adapter without its tool raises `trivet.integrations.judge.MissingLibraryError`.
"""
