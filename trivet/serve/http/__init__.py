"""The HTTP server; no other package imports Starlette or granian."""  # noqa: A005
