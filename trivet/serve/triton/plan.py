"""The engine that ``trivet export --backend tensorrt`` built here, for Triton's TensorRT backend.

The only file of the repository's making that needs a card: an engine is taken from this machine's
own cache, for its own card, and answers the bundle's self-test before it is handed on.
"""

from __future__ import annotations

from typing import NamedTuple

from trivet.backends.graph_choice import check_self_test
from trivet.backends.tensorrt import TensorRTBackend
from trivet.backends.tensorrt_loading import find_engine
from trivet.bundle.bundle import Bundle
from trivet.bundle.tensorrt_info import EngineInfo, EnginePrecision


class Plan(NamedTuple):
    """A serialized engine.

    Attributes:
        content: The bytes of the plan.
        info: What it is.
        inputs: The fields of ``Windows`` that it reads.
    """

    content: bytes
    info: EngineInfo
    inputs: tuple[str, ...]


def find_plan(bundle: Bundle, precision: EnginePrecision) -> Plan:
    """Return the engine of a bundle for the card at hand.

    Raises:
        BundleError: The bundle has no such graph, or the engine does not answer the self-test as
            the graph did at export.
        BackendError: TensorRT or a card is missing, or no engine was built here.
    """
    content, info = find_engine(bundle, precision)
    backend = TensorRTBackend(content, info, contexts=1)
    check_self_test(backend, bundle, info.graph)
    return Plan(content, info, backend.inputs)
