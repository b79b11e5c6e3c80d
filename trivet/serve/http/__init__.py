"""The HTTP server; no other package imports FastAPI or uvicorn."""  # noqa: A005
