"""Trivet inside other tools: one module a tool, each loaded only by who imports it."""
