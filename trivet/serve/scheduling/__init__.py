"""Requests share backend calls: admission, queue and threads; knows no HTTP."""
