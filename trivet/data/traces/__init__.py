"""Traces of RAG applications: spans of any tracing tool become examples."""
