"""Trivet: every score of a RAG answer from one pass of one encoder with up to four heads.

Imports are lazy: ``import trivet`` loads the standard library alone, the first ``trivet.evaluate``
or ``trivet.Evaluator`` loads the backend, and torch is never loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trivet import records
from trivet.errors import (
    BackendError,
    BundleError,
    ConfigError,
    DataError,
    ExampleError,
    ServerError,
    WindowError,
)
from trivet.records import (
    ContextSpan,
    Evaluation,
    FailedEvaluation,
    LabelledExample,
    RagExample,
    Span,
)

if TYPE_CHECKING:
    from trivet.client.async_client import AsyncClient
    from trivet.client.client import Client
    from trivet.evaluation.correction import Correction
    from trivet.evaluation.evaluator import Evaluator, evaluate
    from trivet.integrations.guard import guard
    from trivet.interface import SentenceEvent, to_frame

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

_LAZY = {
    "Evaluator": "trivet.evaluation.evaluator",
    "evaluate": "trivet.evaluation.evaluator",
    "Client": "trivet.client.client",
    "AsyncClient": "trivet.client.async_client",
    "Correction": "trivet.evaluation.correction",
    "SentenceEvent": "trivet.interface",
    "guard": "trivet.integrations.guard",
    "to_frame": "trivet.interface",
}


def __getattr__(name: str) -> Any:
    """Import heavy modules at their first use."""
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


def _notebook(verdict: Evaluation) -> str:
    from trivet.report.pages import to_html

    return to_html(verdict)


def _terminal(verdict: Evaluation) -> Any:
    from trivet.report.terminal import render_evaluation

    return render_evaluation(verdict)


records.set_renderers(_notebook, _terminal)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
