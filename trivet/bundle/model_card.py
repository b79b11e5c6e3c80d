"""Render the model card, a bundle's ``README.md``, from its ``bundle.json``."""

from __future__ import annotations

from collections.abc import Sequence

from trivet.bundle.backend_info import MAX_LOSS, OpenVinoInfo
from trivet.bundle.info import UNBOUNDED, BundleInfo, CalibrationInfo, ScoreInfo

_REDUCTIONS = {
    "weakest_token": "the support of the least supported token of the response",
    "weakest_sentence": "the support of the least supported sentence of the response",
    "two_weakest_sentences": "two thirds of the support of the least supported sentence of the "
    "response and one third of the next one's",
}

_TRUNKS = {
    "shared": "one encoder",
    "separate": "an encoder for each head",
    "partial": "one encoder with upper layers for each head",
}
_DECISIONS = {
    "token": "",
    "example": "Heads predict once for each window, from its first position. ",
}


def render_card(info: BundleInfo) -> str:
    """Return the model card as Markdown."""
    parts = [_summary(info), _use(info), _numbers(info), _training(info), _scores(info.scores)]
    if info.notes:
        parts.append("## Notes\n\n" + "\n\n".join(info.notes))
    parts.append(_files(info))
    return "\n\n".join(parts) + "\n"


def _summary(info: BundleInfo) -> str:
    encoder = info.encoder
    return (
        f"# {info.name}\n\n"
        f"Scores answers that were generated from retrieved passages: {', '.join(info.heads)}, in "
        f"one pass of {_TRUNKS[info.trunk]}. Encoder: {encoder.source} ({encoder.model_type}, "
        f"{encoder.layers} layers, {encoder.hidden_size} wide; licence {encoder.licence}). "
        f"Written by trivet {info.package_version} from `bundle.json`."
    )


def _use(info: BundleInfo) -> str:
    return (
        "## Use\n\n"
        "```python\nimport trivet\n\n"
        'evaluator = trivet.Evaluator("path/to/this/folder")\n'
        "verdict = evaluator.evaluate(question, contexts, response)\n```\n\n"
        f"Inputs are split into windows of {info.window.size} tokens with a stride overlap of "
        f"{info.window.stride_overlap}. {_evidence(info)}Window and thresholds belong to the "
        "weights; `threshold=` and `--threshold` choose another sentence threshold for a call. The "
        "model reads English."
    )


def _evidence(info: BundleInfo) -> str:
    count, text = info.window.evidence_sentences, ""
    if info.window.layout == "lettucedetect":
        text += "They have LettuceDetect's prompt. "
    if info.window.sort_contexts:
        text += (
            "If an example needs several windows, the contexts that share most words with question "
            "and response are read first, together. "
        )
    if count:
        shown = (
            f"{count} context sentences that share" if count > 1 else "context sentence that shares"
        )
        text += (
            "Examples of several windows also have evidence windows, which show for each response "
            f"sentence the {shown} most words with it. The support of a token is a mean of the "
            "highest of its ordinary windows and of the evidence window's, as logits; of n "
            "ordinary windows the evidence window weighs 1/n, and at most one half. "
        )
    return text


def _numbers(info: BundleInfo) -> str:
    rows = [[f"`{name}`", meaning] for name, meaning in info.labels.items()]
    verdict, thresholds = (
        "There is no support head, so responses have no verdict. ",
        info.thresholds,
    )
    if thresholds is not None:
        verdict = (
            f"Faithfulness is {_REDUCTIONS[info.faithfulness]}. A sentence is unsupported if its "
            f"support is below {thresholds.sentence:.4g} (balanced, the default), "
            f"{thresholds.named('careful'):.4g} (careful) or {thresholds.named('strict'):.4g} "
            "(strict), and a response with such a sentence is not adherent. In it the values that "
            f"its sources do not have and the words below {thresholds.span:.4g} are marked, or, if "
            "there are none, all of it. "
        )
    return (
        "## What the numbers mean\n\n"
        + _table(["output", "meaning"], rows)
        + f"\n\n{verdict}{_DECISIONS[info.granularity]}Calibration: "
        f"{_calibration(info.calibration)}. {_sources(info)}The scores compare a response with "
        "the passages given, not with the world: a true statement that no passage supports is "
        "unsupported." + _alarms(info)
    )


def _alarms(info: BundleInfo) -> str:
    if not info.alarms:
        return ""
    rows = [
        [
            alarm.data,
            *(_shares(alarm.found, alarm.hallucinated), str(alarm.hallucinated)),
            *(_shares(alarm.false_alarms, alarm.faithful), str(alarm.faithful)),
        ]
        for alarm in info.alarms
    ]
    header = ["dev set", "found, %", "hallucinated", "false alarms, %", "faithful"]
    apart = " and ".join(alarm.data for alarm in info.alarms if alarm.data in UNBOUNDED)
    why = "do not bound the thresholds: most are claims that the labels do not judge."
    more = f"\n\nFalse alarms of {apart} {why}" if apart else ""
    title = "Answers that are flagged at careful, balanced and strict:"
    return f"\n\n{title}\n\n{_table(header, rows)}{more}"


def _shares(counts: Sequence[int], n: int) -> str:
    return " / ".join(f"{100 * count / n:.0f}" if n else "-" for count in counts)


def _sources(info: BundleInfo) -> str:
    evidence = info.evidence
    if evidence is None:
        return ""
    return (
        f"Context sentences whose probability to support a response sentence reaches "
        f"{evidence.threshold:.4g} are its sources, at most five; a supported sentence has at "
        "least the best one. "
        f"That probability was fitted too (scale {evidence.scale:.3f}, shift {evidence.shift:.3f}, "
        f"lexical overlap {evidence.lexical_overlap:.3f}). "
    )


def _calibration(calibration: CalibrationInfo) -> str:
    if not calibration.data:
        return "none"
    parts = []
    if calibration.heads:
        fitted = ", ".join(
            f"{name} (scale {head.scale:.3f}, shift {head.shift:.3f}"
            f"{f', lexical overlap {head.lexical_overlap:.3f}' if head.lexical_overlap else ''}"
            f"{f', similarity {head.similarity:.3f}' if head.similarity else ''})"
            for name, head in sorted(calibration.heads.items())
        )
        parts.append(f"Platt scaling, folded into the weights, of {fitted}")
    if calibration.sentences is not None:
        weights = ", ".join(
            f"{name.replace('_', ' ')} {weight:.2f}"
            for name, weight in calibration.sentences.weights.items()
        )
        parts.append(
            "a layer over the logit of a sentence's support, in the graph (scale "
            f"{calibration.sentences.scale:.2f}, shift {calibration.sentences.shift:.2f}, weights: "
            f"{weights})"
        )
    errors = "".join(
        f"; expected calibration error of {name} {error.before:.3f} before and {error.after:.3f} "
        "after, cross-fitted"
        for name, error in sorted(calibration.errors.items())
        if error.before is not None and error.after is not None
    )
    return (
        f"{' and '.join(parts)}; fitted on {calibration.split} of {', '.join(calibration.data)}"
        f"{errors}"
    )


def _training(info: BundleInfo) -> str:
    training = info.training
    rows = [[data.name, data.licence, f"{data.rows:,}"] for data in training.data]
    steps = training.command.split(" && ")
    text = f"## Training\n\nFinished on {training.date}, "
    if len(steps) > 1:
        text += f"in {len(steps)} steps: `training.command` of `bundle.json` has the commands."
    else:
        text += f"with:\n\n```bash\n{training.command}\n```"
    if rows:
        text += "\n\n" + _table(["data", "licence", "rows"], rows)
    if training.settings:
        settings = [[f"`{key}`", str(value)] for key, value in training.settings.items()]
        text += "\n\n" + _table(["setting", "value"], settings)
    if left := training.left_out:
        text += (
            f"\n\nLeft out because of {', '.join(left.tests)}: {left.rows:,} rows; "
            f"{left.same_groups:,} groups of these rows, {left.passage_groups:,} that share a "
            f"passage with them and {left.question_groups:,} that share a question."
        )
    return text


def _scores(scores: Sequence[ScoreInfo]) -> str:
    if not scores:
        return "## Scores\n\nNone measured yet."
    names = {score.data for score in scores}
    joined = {name.partition("/")[0] for name in names if name.endswith("/mean")}
    whole = {f"{name}/{part}" for name in joined for part in ("mean", "pooled")}
    left_out = {name for name in names - whole if name.partition("/")[0] in joined}
    scores = [score for score in scores if score.data not in left_out and score.value is not None]
    rows = [
        [
            score.measure,
            f"{score.data} ({score.split})",
            score.precision,
            f"{score.value:.3f}",
            "" if score.low is None else f"{score.low:.3f} to {score.high:.3f}",
            f"{score.n:,}",
            "" if score.positives is None else f"{score.positives:,}",
            str(score.failed),
        ]
        for score in scores
    ]
    header = ["measure", "data", "precision", "value", "95 % interval", "n", "positives", "failed"]
    commands = sorted({f"- `{score.command}` ({score.date})" for score in scores})
    more = f"\n\n`bundle.json` has {len(left_out)} parts of these data, too." if left_out else ""
    return f"## Scores\n\n{_table(header, rows)}\n\nMeasured with:\n\n" + "\n".join(commands) + more


def _files(info: BundleInfo) -> str:
    rows = [
        [
            f"`{graph.file}`",
            graph.precision,
            str(graph.opset),
            "any with ONNX" if graph.portable else "ONNX Runtime",
            "" if graph.difference is None else f"{graph.difference:.1e}",
        ]
        for graph in info.graphs
    ]
    text = (
        "## Files\n\n`MANIFEST.json` holds the size and the SHA-256 of every file and is checked "
        "before anything is loaded."
    )
    if rows:
        text += "\n\n" + _table(
            ["graph", "precision", "opset", "backend", "largest difference from torch"], rows
        )
    return text + (_openvino(info.openvino) if info.openvino else "")


def _openvino(kept: OpenVinoInfo) -> str:
    rows = [
        [
            f"{candidate.method} (kept)" if candidate.method == kept.method else candidate.method,
            f"{candidate.milliseconds:.1f}",
            f"{-candidate.auroc_loss:+.4f}",
            f"{candidate.rmse_loss:+.4f}",
        ]
        for candidate in kept.candidates
    ]
    header = ["method", "ms per window", "AUROC against fp32", "RMSE against fp32"]
    return (
        f"\n\nFor OpenVINO `{kept.file}`, in {kept.precision} with bf16 for the rest, was chosen "
        f"on {kept.rows:,} rows of {kept.data} ({kept.split}), {kept.date}, OpenVINO "
        f"{kept.openvino}: the fastest candidate that loses at most {MAX_LOSS}.\n\n"
        f"{_table(header, rows)}"
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
        for line in lines
    )
