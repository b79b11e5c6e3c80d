"""Trivet: every score of a RAG answer from one pass of one encoder with up to four heads.

Imports are lazy: ``import trivet`` loads nothing, the first ``trivet.evaluate`` or
``trivet.Evaluator`` loads the backend, and torch is never loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trivet.client import AsyncClient, Client
    from trivet.errors import (
        BackendError,
        BundleError,
        ConfigError,
        DataError,
        ExampleError,
        ServerError,
        WindowError,
    )
    from trivet.evaluation.correction import Correction
    from trivet.evaluation.evaluator import Evaluator, evaluate
    from trivet.integrations.guard import guard
    from trivet.interface import SentenceEvent, to_frame
    from trivet.records import (
        ContextSpan,
        Evaluation,
        FailedEvaluation,
        LabelledExample,
        RagExample,
        Span,
    )

    __version__: str

__all__ = [
    "AsyncClient",
    "BackendError",
    "BundleError",
    "Client",
    "ConfigError",
    "ContextSpan",
    "Correction",
    "DataError",
    "Evaluation",
    "Evaluator",
    "ExampleError",
    "FailedEvaluation",
    "LabelledExample",
    "RagExample",
    "SentenceEvent",
    "ServerError",
    "Span",
    "WindowError",
    "__version__",
    "evaluate",
    "guard",
    "to_frame",
]

_ERRORS = ("Backend", "Bundle", "Config", "Data", "Example", "Server", "Window")
_RECORDS = [
    "ContextSpan",
    "Evaluation",
    "FailedEvaluation",
    "LabelledExample",
    "RagExample",
    "Span",
]
_LAZY = {
    **{f"{name}Error": "trivet.errors" for name in _ERRORS},
    **dict.fromkeys(_RECORDS, "trivet.records"),
    "Evaluator": "trivet.evaluation.evaluator",
    "evaluate": "trivet.evaluation.evaluator",
    "Client": "trivet.client",
    "AsyncClient": "trivet.client",
    "Correction": "trivet.evaluation.correction",
    "SentenceEvent": "trivet.interface",
    "guard": "trivet.integrations.guard",
    "to_frame": "trivet.interface",
}


def __getattr__(name: str) -> Any:
    """Import modules at their first use."""
    if name in _LAZY:
        from importlib import import_module

        try:
            return getattr(import_module(_LAZY[name]), name)
        except ModuleNotFoundError as error:
            if "Client" not in name:
                raise
            from trivet.errors import install_line

            raise ImportError(
                f"trivet.{name} needs {error.name}; {install_line('client')}", name=error.name
            ) from error
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("trivet")
        except metadata.PackageNotFoundError:
            return "0+source"  # run from a checkout that was never installed
    raise AttributeError(f"module 'trivet' has no attribute {name!r}")


def render_notebook(verdict: Evaluation) -> str:
    """Return a verdict as HTML, for ``_repr_html_``."""
    from trivet.report.pages import to_html

    return to_html(verdict)


def render_terminal(verdict: Evaluation) -> Any:
    """Return a verdict as rich draws it, for ``__rich__``."""
    from trivet.report.terminal import render_evaluation

    return render_evaluation(verdict)


def render_text(verdict: Evaluation) -> str:
    """Return a verdict as ``print`` shows it."""
    from trivet.report.terminal import plain_text

    return plain_text(verdict)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
