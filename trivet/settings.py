"""Settings that describe themselves: fields of a dataclass, each annotated with its help.

The options of the command line, a server's settings and the tables in the docs are made from them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_type_hints

from trivet.errors import ConfigError

RARE = "Rarely needed"
"""Panel of the options that few users set; the last one."""
BackendName = Literal["onnx", "openvino", "tensorrt", "torch"]
Precision = Literal["fp32", "int8", "bf16", "fp16"]
"""Precision of a graph."""
FALSE_ALARMS = 0.15
"""Share of the faithful responses that may be flagged, unless another is asked for."""


class SettingError(ValueError):
    """A value of a setting is refused; the message says what to write."""


class Setting(NamedTuple):
    """Description of a field of a dataclass, or of a parameter of a command."""

    text: str  # help of the option, also in the table of the docs
    # its names where they do not follow from the field's, such as "--quiet -q"; an argument has a
    # name in capitals
    option: str = ""
    metavar: str | None = None  # name of the value in the help; by default its type
    panel: str | None = None  # heading in the help
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    check: Callable[[Any], None] | None = None  # refuses a value of the command line
    # type on the command line, and what makes the field's value of it
    typed: Any = None
    read: Callable[[Any], Any] | None = None

    @property
    def repeatable(self) -> Setting:
        """The same, of an option that may be given more than once."""
        return self._replace(text=f"{self.text} Repeatable.")

    def refusal(self, value: float) -> str | None:
        """Return what a number must be, or None if it is in the range and finite."""
        if not math.isfinite(value):
            return "a finite number"
        bounds = (
            ("at least", self.least, value.__ge__),
            ("above", self.above, value.__gt__),
            ("at most", self.most, value.__le__),
            ("below", self.below, value.__lt__),
        )
        chosen = [(word, bound, holds) for word, bound, holds in bounds if bound is not None]
        if all(holds(float(bound)) for _, bound, holds in chosen):
            return None
        return " and ".join(f"{word} {bound:g}" for word, bound, _ in chosen)


class DescribedField(NamedTuple):
    """A field with its description; ``default`` is ``dataclasses.MISSING`` if it must be given."""

    name: str
    type: Any
    default: Any
    setting: Setting

    @property
    def option(self) -> str:
        """Names of the option that sets the field, such as ``--access-log/--no-access-log``."""
        name = self.name.removesuffix("_seconds").replace("_", "-")
        on_by_default = f"--{name}/--no-{name}" if self.default is True else f"--{name}"
        return self.setting.option or on_by_default


@functools.cache
def described_fields(settings: type) -> tuple[DescribedField, ...]:
    """Return the fields of a dataclass that are annotated with a ``Setting``, in order."""
    hints = get_type_hints(settings, include_extras=True)
    return tuple(
        DescribedField(field.name, hint.__origin__, field.default, hint.__metadata__[0])
        for field in dataclasses.fields(settings)
        for hint in [hints[field.name]]
        if isinstance(getattr(hint, "__metadata__", (None,))[0], Setting)
    )


def check_ranges(settings: object, section: str = "") -> None:
    """Check the numbers of a dataclass; ``section`` stands before a field's name.

    Raises:
        ConfigError: A number is out of its range, or not finite.
    """
    kind: Any = type(settings)
    for field in described_fields(kind):
        value = getattr(settings, field.name)
        if isinstance(value, int | float) and (must := field.setting.refusal(float(value))):
            raise ConfigError(f"{section}{field.name} ({value:g}) must be {must}")


ThresholdName = Literal["careful", "balanced", "strict"]
THRESHOLD_NAMES: tuple[ThresholdName, ...] = get_args(ThresholdName)
"""Names of a bundle's sentence thresholds, rising; ``balanced`` is the default."""


def read_threshold(text: str) -> float | ThresholdName:
    """Read a sentence threshold from the command line: a name, or a number in [0, 1]."""
    for name in THRESHOLD_NAMES:
        if text == name:
            return name
    try:
        value = float(text)
    except ValueError:
        names = ", ".join(THRESHOLD_NAMES)
        raise SettingError(f"{text!r} is neither a number from 0 to 1 nor one of {names}") from None
    check_share(value)
    return value


def check_share(value: float | None) -> None:
    """Refuse a number outside [0, 1]; of a percentage say the share to write."""
    if value is not None and not 0 <= value <= 1:
        raise SettingError(f"{value:g} is not in [0, 1]{percentage_hint(value)}")


def percentage_hint(value: float) -> str:
    """Return the end of a message: the share that a percentage is; empty for other numbers."""
    if not 1 < value <= 100:
        return ""
    places = ".2f" if value == int(value) else ".4g"
    return f"; write {value / 100:{places}} for {value:g} %"


def check_rate(value: float | None) -> None:
    """Refuse a number outside [0.001, 0.999], as ``check_share`` does."""
    check_share(value)
    if value is not None and not 0.001 <= value <= 0.999:
        raise SettingError(f"{value:g} is not a rate from 0.001 to 0.999")


SplitOption = Annotated[str, Setting("Split of the rows.")]
RestartOption = Annotated[bool, Setting("Start over and overwrite --out.", panel="Output")]
QuietOption = Annotated[bool, Setting("No progress, no summary.", "--quiet -q", panel="Output")]
ThreadsOption = Annotated[
    int | None, Setting("Threads; default: one per core.", metavar="N", panel="Model", least=1)
]
ThresholdOption = Annotated[
    float | ThresholdName | None,
    Setting(
        "0 to 1, careful, balanced (default) or strict.",
        metavar="SUPPORT",
        panel="Model",
        typed=str,
        read=read_threshold,
    ),
]
