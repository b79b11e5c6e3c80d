"""Commands and groups: help in panels, plain refusals, several pairs after ``--map``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import typer
import typer.core

from trivet.errors import plain_fault
from trivet.settings import RARE

_COLUMN = 24  # maximum letters of an option whose help is on the same line
_PAIR = re.compile(r"(question|contexts|response|id|context_ids|rows|messages)=")


class Command(typer.core.TyperCommand):
    """A command whose help has panels, and whose option ``--map`` takes several pairs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat ``--map`` before each further pair."""
        words: list[str] = []
        for word in args:
            if words[-2:-1] == ["--map"] and _PAIR.match(word):
                words.append("--map")
            words.append(word)
        self._refuse_repeated(ctx, words)
        return super().parse_args(ctx, words)

    def _refuse_repeated(self, ctx: Any, words: list[str]) -> None:
        """Refuse an option that is given twice and keeps one value."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(words))
        for param in order:
            is_list = getattr(param, "multiple", False) or getattr(param, "is_flag", False)
            if param.param_type_name == "option" and not is_list and order.count(param) > 1:
                ctx.fail(f"{param.opts[0]} takes one value, and is given {order.count(param)}")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, each under the heading of its panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (shown := param.get_help_record(ctx)) is not None:
                kind = "Options"
                if param.param_type_name == "argument":
                    kind, shown = "Arguments", (shown[0].partition(" <")[0], shown[1])
                panel = getattr(param, "rich_help_panel", None) or kind
                if "--help" in param.opts and panels.keys() - {"Arguments"}:
                    panel = _in_order(panels)[-1]
                panels.setdefault(panel, []).append(shown)
        _write(formatter, panels)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the command's examples."""
        if lines := EXAMPLES.get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                formatter.write("".join(f"  {line}\n" for line in lines))


class Group(typer.core.TyperGroup):
    """Commands in panels, whose refusals of a value are in plain words, not in the parser's."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain_fault(error.message)
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each under the heading of its panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, command.get_short_help_str(formatter.width)))
        _write(formatter, panels)


def _in_order(panels: Iterable[str]) -> list[str]:
    """Return panels as they are shown: the plain ones first, rare options last."""
    ranks = {"Arguments": 0, "Options": 1, RARE: 3}
    return sorted(panels, key=lambda panel: ranks.get(panel, 2))


def _write(formatter: Any, panels: dict[str, list[tuple[str, str]]]) -> None:
    """Write panels; all have one width of the first column."""
    width = max(min(len(first), _COLUMN) for rows in panels.values() for first, _ in rows)
    for panel in _in_order(panels):
        rows = [(f"{first:<{width}}", text) for first, text in panels[panel]]
        with formatter.section(panel):
            formatter.write_dl(rows, col_max=_COLUMN)


EXAMPLES: dict[str, tuple[str, str]] = {
    "evaluate": (
        "trivet evaluate log.jsonl --out verdicts.jsonl --report report.html",
        "trivet evaluate log.csv --map question=prompt --fail-over unsupported=0.05",
    ),
    "show": ("trivet show verdicts.jsonl", "trivet show verdicts.jsonl --id 17"),
    "report": (
        "trivet report verdicts.jsonl --out report.html",
        "trivet report before.jsonl after.jsonl --out change.html",
    ),
    "serve": (
        "trivet serve --port 8080",
        "trivet serve --host 0.0.0.0 --keys keys.txt",
    ),
    "mcp": ("trivet mcp", "trivet mcp --bundle runs/judge/bundle"),
    "test": (
        "trivet test labelled.csv --report errors.html",
        "trivet test --data ragtruth:data/ragtruth --split dev",
    ),
    "calibrate": (
        "trivet calibrate runs/judge/bundle --data jsonl:dev.jsonl",
        "trivet calibrate embedded --data jsonl:dev.jsonl --thresholds-only --out mine",
    ),
    "annotate": (
        "trivet annotate log.jsonl --out labelled.jsonl --model gpt-5-mini",
        "trivet annotate log.jsonl --out labelled.jsonl --model qwen3 "
        "\\\n    --base-url http://127.0.0.1:8000/v1",
    ),
    "adapt": (
        "trivet adapt labelled.jsonl --out runs/mine",
        "trivet adapt labelled.jsonl --out runs/mine optim.epochs=5",
    ),
    "train": (
        "trivet train embedded.yaml encoder.name=DIR --dry-run",
        "trivet train embedded.yaml encoder.name=DIR --resume",
    ),
    "ablate": (
        "trivet ablate grid.yaml --out runs/grid",
        "trivet ablate grid.yaml --out runs/grid --table-only",
    ),
    "info": ("trivet info", "trivet info runs/judge/bundle"),
    "publish": (
        "trivet publish runs/judge/bundle org/name --private",
        "trivet evaluate log.jsonl --bundle org/name",
    ),
    "export onnx": (
        "trivet export onnx runs/judge/bundle",
        "trivet export onnx runs/judge/bundle --precision int8 --out runs/served",
    ),
    "export openvino": (
        "trivet export openvino runs/judge/bundle --data jsonl:dev.jsonl",
        "trivet evaluate log.jsonl --bundle runs/judge/bundle --backend openvino",
    ),
    "export tensorrt": (
        "trivet export tensorrt runs/judge/bundle --data jsonl:dev.jsonl",
        "trivet evaluate log.jsonl --bundle runs/judge/bundle --backend tensorrt",
    ),
    "export triton": (
        "trivet export triton runs/judge/bundle --out models --encoder onnxruntime",
        "tritonserver --model-repository models",
    ),
    "import lettucedetect": (
        "trivet import lettucedetect org/name --out runs/detector",
        "trivet evaluate log.jsonl --bundle runs/detector",
    ),
}
