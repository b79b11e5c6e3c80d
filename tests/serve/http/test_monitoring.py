"""The alert rules and the dashboard in ``deploy/``: read by Prometheus' and Grafana's own tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from trivet.serve.http.prometheus_metrics import Metrics

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus-rules.yaml"
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
EXPRESSIONS = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]


def promtool(*words: str, cwd: Path) -> str:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    result = subprocess.run(["promtool", *words], cwd=cwd, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_prometheus_accepts_the_rules_and_each_fires_when_it_should(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).parent / "alerts_test.yaml", tmp_path)
    assert "3 rules found" in promtool("check", "rules", RULES.name, cwd=tmp_path)
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yaml", cwd=tmp_path)


def test_prometheus_accepts_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {
            "record": f"panel:{number}",
            "expr": expression.replace("$__rate_interval", "5m").replace("$job", ".*"),
        }
        for number, expression in enumerate(EXPRESSIONS)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", file.name, cwd=tmp_path)


def test_rules_and_dashboard_name_series_that_the_server_has() -> None:
    samples = {
        sample.name
        for family in text_string_to_metric_families(Metrics().page().decode())
        for sample in family.samples
    }
    # Without a request there are no series of these yet, and gauges are the batcher's.
    samples |= {"trivet_requests_total", "trivet_queue_windows", "trivet_build_info"}
    texts = [*EXPRESSIONS, RULES.read_text(encoding="utf-8"), json.dumps(DASHBOARD["templating"])]
    named = {name for text in texts for name in re.findall(r"\btrivet_\w+", text)}
    assert len(named) > 8
    assert named - samples == set()


def test_grafana_reads_every_member_of_the_dashboard() -> None:
    models = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    pytest.importorskip("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    read = models.Dashboard.from_json(DASHBOARD)
    kept = json.loads(encoder.JSONEncoder().encode(read))
    assert lost(DASHBOARD, kept) == []


def lost(original: Any, kept: Any, path: str = "") -> list[str]:
    """Return the paths whose values a reader did not keep."""
    if isinstance(original, list) and isinstance(kept, list) and len(original) == len(kept):
        original, kept = dict(enumerate(original)), dict(enumerate(kept))
    if isinstance(original, dict) and isinstance(kept, dict):
        return [
            inner
            for name, value in original.items()
            for inner in lost(value, kept.get(name), f"{path}/{name}")
        ]
    return [] if original == kept else [path]
