"""Serving: shared backend calls, the HTTP server and the models for NVIDIA Triton."""
