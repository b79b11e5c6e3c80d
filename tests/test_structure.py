"""The project as a whole: layers, file sizes, light imports, declared dependencies, links."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "trivet"
BUNDLE = PACKAGE / "bundles" / "embedded"
SOURCES = sorted(
    file
    for folder in ("trivet", "tests", "examples", "benchmarks")
    for file in (ROOT / folder).rglob("*.py")
)
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
HEAVY = {"torch", "lightning", "pytorch_lightning", "transformers", "datasets", "torchmetrics"}
HEAVY |= {"omegaconf", "scipy", "sklearn", "pandas", "pyarrow", "onnx", "onnxscript"}
LIGHT = (
    "trivet",
    "trivet.records",
    "trivet.data.sentences",
    "trivet.data.windows",
    "trivet.data.spans",
    "trivet.data.tokenization",
    "trivet.labelled.sources",
    "trivet.labelled.plain_labels",
    "trivet.measures.metrics",
    "trivet.measures.label_check",
    "trivet.report.check_tables",
    "trivet.thresholds.apply",
    "trivet.thresholds.fit",
    "trivet.model.aggregate",
    "trivet.bundle.bundle",
    "trivet.evaluation.evaluator",
    "trivet.report.write_report",
    "trivet.report.pages",
    "trivet.batch.run",
    "trivet.client",
    "trivet.commands.verdicts",
    "trivet.__main__",
)


def run(*command: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run ``command`` with the package importable, whether or not it is installed."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8"
    )


@functools.cache
def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a source file."""
    return ast.parse(file.read_text(encoding="utf-8"))


def names(requirements: Iterable[str]) -> set[str]:
    """Return the names of requirements as package indexes compare them."""
    return {
        re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement)[0]).lower()
        for requirement in requirements
    }


def test_imports_keep_to_the_layers() -> None:
    script = "import sys; from importlinter.cli import lint_imports; "
    script += "sys.exit(lint_imports('pyproject.toml', no_cache=True))"
    result = run(sys.executable, "-c", script)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_names_of_files_and_of_classes_are_used_once() -> None:
    files = [file for file in PACKAGE.rglob("*.py") if not file.stem.startswith("__")]
    names = [file.stem for file in files]
    for file in files:
        nodes = ast.parse(file.read_text(encoding="utf-8")).body
        names += [node.name for node in nodes if isinstance(node, ast.ClassDef)]
    repeated = {name for name, count in Counter(names).items() if count > 1}
    assert repeated == {"TritonPythonModel"}  # Triton looks for this name in each model


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("trivet", cache_dir=None, exclude_type_checking_imports=True)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError with the modules


def test_names_are_imported_from_the_module_that_defines_them() -> None:
    trees = {file: parse(file) for file in SOURCES}
    passed_on = {
        (".".join(file.relative_to(ROOT).with_suffix("").parts), name.asname or name.name)
        for file, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert [
        f"{file}:{node.lineno} {name.name}"
        for file, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if (node.module, name.name) in passed_on
    ] == []


def test_files_are_short_and_modules_have_docstrings() -> None:
    lines = {file: file.read_text(encoding="utf-8").splitlines() for file in [*SOURCES, *DOCUMENTS]}
    limits = {".py": 400, ".md": 320}
    checked = [file for file in lines if file.name != "CHANGELOG.md"]
    assert [file for file in checked if len(lines[file]) > limits[file.suffix]] == []
    assert len(lines[ROOT / "README.md"]) <= 110
    assert [file for file in SOURCES if not ast.get_docstring(parse(file))] == []


def test_serving_loads_nothing_heavy() -> None:
    script = (
        "import importlib, json, sys\n"
        "loaded = {}\n"
        f"for name in {LIGHT!r}:\n"
        "    importlib.import_module(name)\n"
        f"    loaded[name] = sorted({HEAVY!r} & set(sys.modules))\n"
        "print(json.dumps(loaded))\n"
    )
    result = run(sys.executable, "-c", script)
    assert result.returncode == 0, result.stderr
    loaded = json.loads(result.stdout)
    assert {name: heavy for name, heavy in loaded.items() if heavy} == {}


def test_the_help_loads_nothing_heavy() -> None:
    result = run(sys.executable, "-X", "importtime", "-m", "trivet", "--help")
    assert result.returncode == 0, result.stderr
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "trivet" in loaded
    assert loaded & HEAVY == set()
    for command in ("evaluate", "test", "train", "export", "info"):
        assert command in result.stdout


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_finds_nothing(arguments: list[str]) -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed")
    folders = ("trivet", "tests", "examples", "benchmarks")
    result = run(sys.executable, "-m", "ruff", *arguments, "--no-cache", *folders)
    assert result.returncode == 0, result.stdout + result.stderr


DEV = ("files", "train", "export", "openvino", "research", "serve", "client", "mcp", "dev")


def test_the_constraints_pin_every_direct_dependency_of_the_test_command() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(name for extra in DEV for name in extras[extra])]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    # No local version and no address: "torch==2.13.0" accepts a CPU build and a CUDA build alike.
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)] == []
    assert names(asked) - names(pins) - {"trivet"} == set()


# Loaded late by the adapters; whoever uses one of these tools has it installed.
ADAPTED = {"deepeval", "haystack", "langchain_core", "langsmith", "llama_index", "mlflow"}
ADAPTED |= {"phoenix", "ragas", "ray", "triton_python_backend_utils"}
ADAPTED |= {"lettucedetect"}  # in a test


def test_imports_are_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = names([*project["dependencies"], *itertools.chain(*extras.values())])
    distributions = importlib.metadata.packages_distributions()
    imported: set[str] = set()
    for file in SOURCES:
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    imported -= {*sys.stdlib_module_names, *ADAPTED, "trivet", "tests", "benchmarks", "research"}
    undeclared = {
        name for name in imported if not declared & names(distributions.get(name, [name]))
    }
    # These are parts of pydantic, jinja2, tensorrt-cu13, tritonclient and of what needs pandas.
    assert undeclared <= {"pydantic_core", "markupsafe", "tensorrt", "cuda", "google", "pandas"}


def test_the_embedded_bundle_is_small() -> None:
    files = {file.name: file.stat().st_size for file in BUNDLE.iterdir()}
    assert {"bundle.json", "tokenizer.json", "MANIFEST.json", "README.md"} <= set(files)
    graphs = {name: size for name, size in files.items() if name.endswith(".onnx")}
    assert graphs
    assert sum(graphs.values()) <= 26_000_000
    assert not any(name.endswith((".safetensors", ".bin", ".ckpt")) for name in files)


def test_the_card_names_no_path_of_one_machine() -> None:
    for file in [*BUNDLE.glob("*.md"), BUNDLE / "bundle.json"]:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w:/.])/(home|root|tmp|work|usr|Users)/", text), file
    assert json.loads((BUNDLE / "bundle.json").read_bytes())["scores"], "no figure in the card"


def test_tests_run_offline() -> None:
    # An address that is reserved for documentation: were it tried, it would time out, not refuse.
    with pytest.raises(OSError, match="tests run offline"):
        socket.create_connection(("192.0.2.1", 80), timeout=0.5)


def test_every_path_the_documents_link_to_exists() -> None:
    missing = [
        f"{document.name}: {target}"
        for document in DOCUMENTS
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text(encoding="utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert missing == []
