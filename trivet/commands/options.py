"""Options of commands, made from described settings, and the settings that commands share."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from trivet.settings import (
    BackendName,
    DescribedField,
    Precision,
    Setting,
    SettingError,
    ThreadsOption,
    described_fields,
)

if TYPE_CHECKING:
    from trivet.evaluation.evaluator import Evaluator


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command's parameters into options, by what describes them.

    A parameter ``Annotated[T, Setting(...)]`` becomes one option or argument. One whose type is a
    dataclass becomes an option for each of its described fields, and the command gets the
    dataclass. Any other stays as it is.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    own_fields: list[DescribedField] = []
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind, described = hints[name], getattr(hints[name], "__metadata__", (None,))[0]
        if dataclasses.is_dataclass(kind):
            assert isinstance(kind, type)
            groups[name] = kind
            parameters += map(_parameter, described_fields(kind))
        elif isinstance(described, Setting):
            required = parameter.default is parameter.empty
            default = dataclasses.MISSING if required else parameter.default
            own_fields.append(DescribedField(name, kind.__origin__, default, described))
            parameters.append(_parameter(own_fields[-1]))
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kind))

    @functools.wraps(command)
    def call(**values: Any) -> None:
        with _refusals():
            for name, kind in groups.items():
                values[name] = kind(**_read(described_fields(kind), values))
            fields = _read(own_fields, values)
            command(**values, **fields)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in parameters}
    del call.__wrapped__
    return call


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn the refusal of a value into one of the command line."""
    try:
        yield
    except SettingError as error:
        raise typer.BadParameter(str(error)) from error


def _read(fields: Iterable[DescribedField], values: dict[str, Any]) -> dict[str, Any]:
    """Take fields out of the values of a command line, without those that keep their default."""
    kept = {}
    for field in fields:
        value, read = values.pop(field.name), field.setting.read
        if read is None:
            kept[field.name] = value
        elif value is not None:
            kept[field.name] = read(value)
    return kept


def _parameter(field: DescribedField) -> inspect.Parameter:
    """Return the parameter from which typer makes the option."""
    setting = field.setting

    def check(value: Any) -> Any:
        if setting.check is not None:
            with _refusals():
                setting.check(value)
        if isinstance(value, int | float) and (must := setting.refusal(float(value))):
            raise typer.BadParameter(f"must be {must}")
        return value

    shared: dict[str, Any] = {"help": setting.text, "rich_help_panel": setting.panel}
    shared |= {"min": setting.least, "max": setting.most, "callback": check}
    default = None if setting.read else field.default
    option: Any
    if setting.option and not setting.option.startswith("-"):
        option = typer.Argument(metavar=setting.option, show_default=False, **shared)
    else:
        metavar = setting.metavar or _metavar(setting.typed or field.type)
        option = typer.Option(*field.option.split(), metavar=metavar, **shared)
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
        annotation=Annotated[setting.typed | None if setting.read else field.type, option],
    )


def _metavar(kind: Any) -> str | None:
    """Return the name of an option's value in the help; ``None`` for flags and choices."""
    names = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}
    return names.get(kind) or next(filter(None, map(_metavar, get_args(kind))), None)


_model = partial(Setting, panel="Model")
BundleOption = Annotated[
    Path | None,
    _model("Folder, or org/name[@revision] on the hub; default: embedded.", metavar="FOLDER|NAME"),
]
BackendOption = Annotated[
    BackendName | None,
    _model(
        "onnx, openvino, tensorrt or torch; default: onnx; on a GPU the engine, else torch.",
        metavar="NAME",
    ),
]
DeviceOption = Annotated[
    str | None, _model("Device; default: a GPU if there is one.", metavar="cpu|cuda[:N]")
]
BundleArgument = Annotated[
    Path, Setting("Folder, embedded, or org/name[@revision] on the hub.", "BUNDLE")
]
LabelledArgument = Annotated[
    Path, Setting("Labelled JSONL, or a sheet with a column of labels.", "LABELLED")
]
_rows = Setting(
    "Labelled rows that no weight was trained on: jsonl:dev.jsonl or sheet:FILE.", metavar="SPEC"
)
OneDataOption = Annotated[str, _rows]
DataOption = Annotated[list[str], _rows.repeatable]


LabelOption = Annotated[
    str | None,
    Setting(
        "Column of a sheet's labels: true or false, 1 or 0, right or wrong, supported or "
        "unsupported; default: adherent, label or gold.",
        metavar="COLUMN",
    ),
]


@dataclass(frozen=True)
class Model:
    """The bundle of a judge, and what it runs on."""

    bundle: BundleOption = None
    backend: BackendOption = None
    device: DeviceOption = None
    precision: Annotated[
        Precision | None, _model("int8, fp32, bf16 or fp16; default: the fastest.", metavar="NAME")
    ] = None
    threads: ThreadsOption = None

    def load(self, max_characters: int | None = None) -> Evaluator:
        """Load the bundle; ``max_characters`` is the longest text."""
        from trivet.evaluation.evaluator import Evaluator
        from trivet.evaluation.preprocessing import MAX_CHARACTERS

        return Evaluator(
            self.bundle,
            self.threads,
            precision=self.precision,
            backend=self.backend,
            device=self.device,
            max_characters=max_characters or MAX_CHARACTERS,
        )
