"""Self-test of a bundle: small inputs, and the answers recorded for each file at export.

It proves that this machine computes what was computed at export, whatever its processor and the
version of its backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from trivet.bundle.info import INPUTS
from trivet.bundle.manifest import Part
from trivet.errors import BundleError, fault_words
from trivet.model.aggregate import heads_of, output_names

SELF_TEST_SCHEMA = 1
# Largest accepted difference of a probability. Processors round dynamic int8 differently.
TOLERANCE = {"fp32": 1e-3, "int8": 0.02, "bf16": 0.02, "fp16": 0.01}
_STRETCH = 16  # positions over whose mean states are compared; a short sentence
_DTYPES: dict[str, type[np.generic]] = {"int64": np.int64, "float32": np.float32}


class _Tensor(Part):
    """A tensor as JSON: its shape and its values in row-major order."""

    shape: tuple[int, ...]
    values: tuple[float, ...] | tuple[int, ...]

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> _Tensor:
        """Convert an array; floats keep the 7 digits of float32."""
        values = array.reshape(-1).tolist()
        if array.dtype.kind == "f":
            values = [float(f"{value:.7g}") for value in values]
        return cls(shape=tuple(array.shape), values=tuple(values))

    def array(self, dtype: type[np.generic]) -> npt.NDArray[Any]:
        """Return the values in their shape."""
        return np.asarray(self.values, dtype=dtype).reshape(self.shape)


class _Expected(Part):
    """Answers of one file at export, and its precision."""

    precision: str
    outputs: dict[str, _Tensor]


class SelfTest(Part):
    """The contents of ``self_test.json``."""

    schema_version: int = SELF_TEST_SCHEMA
    inputs: dict[str, _Tensor]
    expected: dict[str, _Expected] = Field(min_length=1)

    @classmethod
    def record(
        cls,
        inputs: Mapping[str, npt.NDArray[Any]],
        answers: Mapping[str, tuple[str, Mapping[str, npt.NDArray[Any]]]],
    ) -> SelfTest:
        """Create a self-test from its inputs and ``{file: (precision, outputs)}``."""
        return cls(
            inputs=_stored(inputs),
            expected={
                file: _Expected(precision=precision, outputs=_answers(outputs))
                for file, (precision, outputs) in answers.items()
            },
        )

    def with_answers(
        self, file: str, precision: str, outputs: Mapping[str, npt.NDArray[Any]]
    ) -> SelfTest:
        """Return the test with the answers of one more file."""
        added = {file: _Expected(precision=precision, outputs=_answers(outputs))}
        return self.model_copy(update={"expected": {**self.expected, **added}})

    def without(self, file: str) -> SelfTest:
        """Return the test without the answers of one file."""
        kept = {name: answers for name, answers in self.expected.items() if name != file}
        return self.model_copy(update={"expected": kept})

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the inputs: the fields of ``Windows`` by name, in order."""
        return {info.name: self.inputs[info.name].array(_DTYPES[info.dtype]) for info in INPUTS}

    def check(
        self, file: str, outputs: Mapping[str, npt.NDArray[Any]], precision: str | None = None
    ) -> float:
        """Compare answers with those recorded at export.

        Args:
            file: File whose answers were recorded.
            outputs: Answers to compare.
            precision: Precision of the answers, if it is not that of the file; both round then.

        Returns:
            The largest difference of any value.

        Raises:
            BundleError: An answer has another shape, is not finite or differs too much, or none is
                recorded for ``file``.
        """
        if file not in self.expected:
            raise BundleError(
                f"self_test.json: no answers of {file}, only of "
                f"{', '.join(sorted(self.expected))}; run `trivet export onnx` on the bundle again"
            )
        expected = self.expected[file]
        worst = 0.0
        if outputs.keys() != expected.outputs.keys():
            raise BundleError(
                f"{file}: self-test: the outputs are {', '.join(sorted(outputs))} instead of "
                f"{', '.join(sorted(expected.outputs))}"
            )
        for name, recorded in expected.outputs.items():
            wanted, actual = recorded.array(np.float32), _comparable(name, outputs[name])
            if actual.shape != wanted.shape:
                raise BundleError(
                    f"{file}: self-test: {name} has shape {actual.shape} instead of "
                    f"{wanted.shape}; run `trivet export onnx` on the bundle again"
                )
            if not np.isfinite(actual).all():
                raise BundleError(f"{file}: self-test: {name} is not finite on this machine")
            worst = max(worst, float(np.abs(actual - wanted).max(initial=0.0)))
        kinds = {expected.precision, precision or expected.precision}
        tolerance = sum(TOLERANCE.get(kind, TOLERANCE["fp32"]) for kind in kinds)
        if worst > tolerance:
            raise BundleError(
                f"{file}: self-test: answers differ by {worst:.2g} from those at export, which "
                f"must be at most {tolerance:g} at {' and '.join(sorted(kinds))}; this machine's "
                "backend computes something else, use another backend or a portable (fp32) graph"
            )
        return worst

    def to_json(self) -> str:
        """Return ``self_test.json`` as text."""
        return self.model_dump_json() + "\n"


def _stored(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, _Tensor]:
    return {name: _Tensor.of(array) for name, array in arrays.items()}


def _answers(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, _Tensor]:
    return _stored({name: _comparable(name, array) for name, array in arrays.items()})


def _comparable(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what is compared of an output: all of it, but states as means over positions.

    Like the verdict, which reads their means over sentences; a single state is not a probability,
    and rounding to bf16 moves it by more than the tolerance of one.
    """
    array = np.asarray(array)
    if name != "evidence_states" or array.ndim != 3:
        return array
    stretches = [array[:, at : at + _STRETCH] for at in range(0, max(1, array.shape[1]), _STRETCH)]
    return np.stack([part.mean(axis=1) for part in stretches], axis=1)


def read_self_test(path: Path) -> SelfTest:
    """Read ``self_test.json`` of a bundle whose manifest was checked.

    Raises:
        BundleError: Not a self-test, or of another schema version.
    """
    try:
        test = SelfTest.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise BundleError(f"{path}: not a self-test: {fault_words(error, 1)}") from error
    if test.schema_version != SELF_TEST_SCHEMA:
        raise BundleError(
            f"{path}: schema_version {test.schema_version}, this trivet reads {SELF_TEST_SCHEMA}; "
            "use a newer trivet"
        )
    names = [({info.name for info in INPUTS}, test.inputs)]
    names += [
        (set(output_names(heads_of(answers.outputs))), answers.outputs)
        for answers in test.expected.values()
    ]
    for wanted, tensors in names:
        if wanted != tensors.keys():
            raise BundleError(f"{path}: holds {sorted(tensors)} instead of {sorted(wanted)}")
        for name, tensor in tensors.items():
            if int(np.prod(tensor.shape)) != len(tensor.values):
                raise BundleError(
                    f"{path}: {name} has {len(tensor.values)} values, not {tensor.shape}"
                )
    return test
