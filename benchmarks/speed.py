"""Seconds for one long example on a CPU: int8, fp32 and plain torch, in one run.

    python benchmarks/speed.py --bundle FOLDER --json speed.json

An example of 4,096 and one of 16,384 context tokens, with 100 tokens of question and response, is
judged from text to verdict; the three stages (cut, engine, verdict) are timed apart, so a slow
tokenizer is never blamed on the engine. The first run warms up and is not counted.

Engines: ``int8`` and ``fp32`` are the bundle's graphs in ONNX Runtime; ``torch`` is the same model
in fp32 with the library's scaled-dot-product attention. A bundle without a graph skips its row; one
without weights gives torch random weights of the same shape, which changes no time and is said in
the table. Each engine runs in a process of its own, with glibc's allocator told to keep its memory:
torch is up to twice as slow without.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trivet.data.reading import read_examples
from trivet.data.tokens import SegmentTokenizer
from trivet.data.windows import Windows, WindowSettings, lay_out
from trivet.model.aggregate import Outputs
from trivet.model.bundle import WEIGHTS_NAME, Bundle, read_bundle
from trivet.records import BundleError, EngineError, RagExample
from trivet.serve.backend import Backend
from trivet.serve.engine_calls import POSITIONS, run_layouts
from trivet.serve.loading import DEFAULT_BUNDLE, load_backend, load_tokenizer
from trivet.serve.verdict import read_verdict

ENGINES = ("int8", "fp32", "torch")
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
QUESTION_TOKENS, RESPONSE_TOKENS, PASSAGE_TOKENS = 20, 80, 256
WORDS = """
    the of and a river bridge stone town was built in year by north old mill water boat keeper lamp
    garden market harbour winter road repaired opened wooden tower visitors museum engine railway
""".split()  # noqa: SIM905 (one word a line would hide what it is)


class TorchBackend:
    """The same model in plain torch, fp32; answers as any engine of the evaluator does."""

    def __init__(self, bundle: Bundle, vocabulary: int, threads: int | None) -> None:
        import torch

        self._torch = torch
        if threads:
            torch.set_num_threads(threads)
        self.random = not bundle.has(WEIGHTS_NAME)
        self._model = _random_model(bundle, vocabulary) if self.random else _trained_model(bundle)
        self._model.eval()

    @property
    def name(self) -> str:
        """What runs."""
        return "torch fp32, random weights" if self.random else "torch fp32"

    def run(self, windows: Windows) -> Outputs:
        """Run the model once; shapes as in ``Windows`` and ``Outputs``."""
        with self._torch.inference_mode():
            tensors = [self._torch.from_numpy(array) for array in windows]
            return Outputs(*(output.numpy() for output in self._model(*tensors)))


def _trained_model(bundle: Bundle) -> Any:
    from trivet.model.bundle_weights import load_rag_model

    return load_rag_model(bundle)


def _random_model(bundle: Bundle, vocabulary: int) -> Any:
    """Build a BERT of the bundle's width and depth; the embedded bundle ships no torch weights."""
    import transformers

    from trivet.model.rag_model import RagModel
    from trivet.model.trunk import Trunk

    about = bundle.info.encoder
    if about.model_type != "bert":
        raise BundleError(f"{bundle.folder}: no {WEIGHTS_NAME}, and {about.model_type} is not bert")
    config = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=about.hidden_size,
        num_hidden_layers=about.layers,
        num_attention_heads=max(1, about.hidden_size // 32),  # as in the MiniLM family
        intermediate_size=4 * about.hidden_size,
    )
    encoder = transformers.BertModel(config, add_pooling_layer=False)
    return RagModel(Trunk(encoder), bundle.info.faithfulness)


def build_example(tokenizer: SegmentTokenizer, context_tokens: int) -> RagExample:
    """Write an example of about ``context_tokens``; the same one for the same tokenizer."""
    rng = random.Random(0)
    cost = dict(zip(WORDS, map(len, tokenizer.encode([f" {word}" for word in WORDS])), strict=True))

    def text(tokens: int) -> str:
        sentences, words, left = [], [], tokens
        while left > 1:
            word = rng.choice(WORDS)
            words.append(word)
            left -= cost[word]
            if len(words) == 12 or left <= 1:
                sentences.append(" ".join(words).capitalize() + ".")
                words, left = [], left - 1
        return " ".join(sentences)

    passages, rest = divmod(context_tokens, PASSAGE_TOKENS)
    sizes = [PASSAGE_TOKENS] * passages + ([rest] if rest else [])
    return RagExample(text(QUESTION_TOKENS), tuple(map(text, sizes)), text(RESPONSE_TOKENS))


def time_engine(bundle: Bundle, engine: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Time one engine on every length; one row a length."""
    tokenizer = load_tokenizer(bundle)
    backend: Backend
    if engine == "torch":
        backend = TorchBackend(bundle, tokenizer.vocab_size, arguments.threads)
    else:
        backend = load_backend(bundle, arguments.threads, "int8" if engine == "int8" else "fp32")
    rows = []
    for tokens in arguments.lengths:
        example = build_example(tokenizer, tokens)
        runs = [
            _time_once(bundle, tokenizer, backend, example) for _ in range(arguments.repeats + 1)
        ]
        kept = runs[1:]
        seconds = sorted(run["total"] for run in kept)
        rows.append(
            {
                "engine": backend.name,
                "context_tokens": int(kept[0]["context_tokens"]),
                "question_and_response_tokens": int(kept[0]["other_tokens"]),
                "windows": int(kept[0]["windows"]),
                "seconds_median": statistics.median(seconds),
                "seconds_least": seconds[0],
                "seconds_most": seconds[-1],
                **{
                    f"{stage}_seconds_median": statistics.median(run[stage] for run in kept)
                    for stage in ("cut", "engine", "verdict")
                },
                "peak_memory_mb": _peak_memory_mb(),
            }
        )
    return rows


def _time_once(
    bundle: Bundle, tokenizer: SegmentTokenizer, backend: Backend, example: RagExample
) -> dict[str, float]:
    info = bundle.info
    settings = WindowSettings(info.window.size, info.window.overlap)
    started = time.perf_counter()
    (read,) = read_examples([example], tokenizer)
    layout = lay_out(read, settings, tokenizer.special)
    cut = time.perf_counter()
    (outputs,) = run_layouts([layout], backend, tokenizer.special.pad, info.faithfulness)
    if isinstance(outputs, EngineError):
        raise outputs
    ran = time.perf_counter()
    read_verdict(example, read, layout, outputs, info.thresholds)
    ended = time.perf_counter()
    return {
        "total": ended - started,
        "cut": cut - started,
        "engine": ran - cut,
        "verdict": ended - ran,
        "context_tokens": len(read.context),
        "other_tokens": len(read.question) + len(read.response),
        "windows": len(layout.rows),
    }


def _peak_memory_mb() -> float:
    """Return the most memory this process has held, in MB of 10^6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


def _versions() -> dict[str, str]:
    found = {}
    for name in ("numpy", "onnxruntime", "tokenizers", "torch", "transformers"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def to_markdown(report: dict[str, Any]) -> str:
    """Return the rows as a table, with what they were measured on below."""
    lines = [
        "| engine | context tokens | question + response | windows | seconds (least to most) "
        "| cut / engine / verdict | peak MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        stages = " / ".join(
            f"{row[f'{s}_seconds_median']:.3f}" for s in ("cut", "engine", "verdict")
        )
        lines.append(
            f"| {row['engine']} | {row['context_tokens']} | {row['question_and_response_tokens']} "
            f"| {row['windows']} | {row['seconds_median']:.2f} ({row['seconds_least']:.2f} to "
            f"{row['seconds_most']:.2f}) | {stages} | {row['peak_memory_mb']:.0f} |"
        )
    lines += [
        f"| {name} | not run: {reason} | | | | | |" for name, reason in report["skipped"].items()
    ]
    about = f"{report['date']}, {report['processor']}, {report['cores']} cores, threads "
    about += f"{report['threads'] or 'one a core'}, {report['repeats']} runs, at most "
    about += f"{report['positions_a_call']} positions a call, allocator {report['allocator']}"
    return "\n".join([*lines, "", about])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run every engine in its own process, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--bundle", type=Path, default=DEFAULT_BUNDLE)
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--only", choices=ENGINES, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.only:
        try:
            answer: Any = time_engine(read_bundle(chosen.bundle), chosen.only, chosen)
        except (BundleError, ImportError) as error:
            answer = str(error)
        print(json.dumps(answer))
        return 0
    words = list(sys.argv[1:] if arguments is None else arguments)
    rows, skipped = [], {}
    for engine in chosen.engines:
        command = [sys.executable, __file__, *words, "--only", engine]
        child = subprocess.run(
            command, env=os.environ | ALLOCATOR, stdout=subprocess.PIPE, check=True
        )
        result = json.loads(child.stdout.splitlines()[-1])
        if isinstance(result, str):
            skipped[engine] = result
        else:
            rows += result
    report = {
        "benchmark": "speed",
        "date": datetime.date.today().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": chosen.threads,
        "repeats": chosen.repeats,
        "positions_a_call": POSITIONS,
        "allocator": ALLOCATOR,
        "python": platform.python_version(),
        "versions": _versions(),
        "rows": rows,
        "skipped": skipped,
    }
    if chosen.json:
        chosen.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(to_markdown(report))
    return 0 if rows else 1


def _processor() -> str:
    """Return the processor's name as the system tells it."""
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
