"""The evaluator behind HTTP; no other folder knows Starlette or uvicorn."""  # noqa: A005
