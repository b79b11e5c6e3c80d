"""The server's pages: calls are made, tables and manifests compared."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from trivet.__main__ import app
from trivet.serve.http.health import PROBES
from trivet.serve.http.metrics import Metrics
from trivet.serve.http.settings import ServerSettings
from trivet.serve.scheduling.batched_request import BatcherState
from trivet.settings import described_fields

ROOT = Path(__file__).resolve().parent.parent
PAGES = "\n".join(
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("serving.md", "gateways.md", "operating.md", "deployment.md")
)
ADDRESS = "http://127.0.0.1:8080"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGES, flags=re.MULTILINE | re.DOTALL)


def calls() -> list[tuple[str, Any]]:
    """Return each call of curl and the answer that stands below it."""
    found = re.findall(r"^```bash\n(curl.*?)^```\n.*?^```json\n(.*?)^```", PAGES, re.M | re.S)
    return [(command, json.loads(answer, parse_float=Decimal)) for command, answer in found]


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the table whose first header is ``heading``."""
    table = PAGES.partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def codes(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def settings_table() -> str:
    """Return the Markdown table of the options of ``trivet serve``."""
    lines = ["| option | default | meaning |", "| --- | --- | --- |"]
    for field in described_fields(ServerSettings):
        names = ", ".join(f"`{name}`" for name in field.option.split("/"))
        default = "" if field.default in (None, False) else field.default
        shown = f"{default:g}" if isinstance(default, float) else default
        shown = "on" if default is True else shown
        lines.append(f"| {names} | {shown} | {field.setting.text} |")
    return "\n".join(lines)


def options() -> dict[str, Any]:
    """Return the options of ``trivet serve`` and their defaults."""
    command: Any = typer.main.get_command(app)
    params = command.commands["serve"].params
    return {name: each.default for each in params for name in (*each.opts, *each.secondary_opts)}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run the command on a free port; it must end well when it is told to."""
    command = [sys.executable, "-m", "trivet", "serve", "--port", "0", "--threads", "1"]
    with subprocess.Popen(
        command, cwd=tmp_path_factory.mktemp("serve"), stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if ready := re.search(r"ready on (http://\S+)", line):
                break
        assert ready, said
        yield ready.group(1)
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
        assert process.returncode == 0, rest


def assert_equal(got: Any, shown: Any, place: str = "answer") -> None:
    """Compare; numbers to the digits shown, because int8 differs a little between processors."""
    if isinstance(shown, dict):
        assert list(got) == list(shown), place
        for name in shown:
            assert_equal(got[name], shown[name], f"{place}.{name}")
    elif isinstance(shown, list):
        assert len(got) == len(shown), place
        for number, (one, other) in enumerate(zip(got, shown, strict=True)):
            assert_equal(one, other, f"{place}[{number}]")
    elif isinstance(shown, Decimal):
        assert round(Decimal(got), -int(shown.as_tuple().exponent)) == shown, place
    else:
        assert got == shown, place


def ask(command: str, url: str) -> str:
    """Make the call of a curl command and return the text of the answer."""
    words = shlex.split(command.replace(ADDRESS, url))
    assert words[0] == "curl" and words[1] in ("-s", "-N")
    request = urllib.request.Request(words[2])
    for flag, value in zip(words[3::2], words[4::2], strict=True):
        if flag == "-d":
            request.data = value.encode()
        else:
            assert flag == "-H"
            request.add_header(*value.split(": "))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return str(answer.read(), "utf-8")
    except urllib.error.HTTPError as error:
        with error:
            return str(error.read(), "utf-8")


@pytest.mark.parametrize("number", range(len(calls())))
def test_each_call_gives_the_answer_below_it(number: int, url: str) -> None:
    command, shown = calls()[number]
    assert_equal(json.loads(ask(command, url)), shown)


def test_a_stream_sends_the_events_below_it(url: str) -> None:
    page = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    ((command, shown),) = re.findall(r"^```bash\n(curl.*?)^```\n+```\n(.*?)^```", page, re.M | re.S)
    pattern = re.escape(shown.strip()).replace(re.escape("..."), ".*")
    assert re.fullmatch(pattern, ask(command, url).strip())


def test_every_route_that_judges_is_called(url: str) -> None:
    with urllib.request.urlopen(f"{url}/openapi.json") as answer:
        described = json.load(answer)["paths"]
    called = {match for command, _ in calls() for match in re.findall(rf"{ADDRESS}(/\S+)", command)}
    assert {path for path, item in described.items() if "post" in item} - {"/v1/stream"} <= called
    paths = {*described, "/", "/try", "/docs", "/openapi.json"}
    assert {path.split()[1] for row in rows("route") for path in codes(row[0])} <= paths


def test_the_python_runs(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (code,) = blocks("python")
    exec(compile(code.replace(ADDRESS, url), "operating.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"q1 0\.\d+", line) for line in lines)


def test_every_option_that_is_named_exists() -> None:
    known = options()
    typed = " ".join(re.findall(r"trivet serve(.*)", "\n".join(blocks("bash"))))
    spans = codes(re.sub(r"^```.*?^```", "", PAGES, flags=re.M | re.S))
    typed += " ".join(span for span in spans if not span.startswith("python -m benchmarks."))
    named = set(re.findall(r"--[a-z][a-z-]*", typed))
    assert {"--keys", "--tls-cert", "--otel", "--grace"} <= named
    assert named - set(known) <= {"--help"}
    assert settings_table() in PAGES


def test_the_metrics_are_those_that_are_counted() -> None:
    metrics = Metrics()
    metrics.describe(version="1", bundle="b", backend="e", precision="int8")
    metrics.read_queue_from(lambda: BatcherState(0, 0, None, False))
    metrics.answered("/v1/evaluate", 200)
    counted = {
        metric.name + "_total" * (metric.type == "counter"): metric
        for metric in metrics.registry.collect()
        if metric.name.startswith("trivet_")
    }
    named = " ".join(row[0] for row in rows("metric"))
    shown = dict(re.findall(r"`(\w+)({.*?})?`", named))
    assert set(shown) == set(counted)
    for name, labels in shown.items():
        own = {label for sample in counted[name].samples for label in sample.labels} - {"le"}
        if own:
            assert set(labels.strip("{}").split(",")) == own
    reasons = next(row[1] for row in rows("metric") if "rejected" in row[0])
    samples = counted["trivet_rejected_total"].samples
    assert set(codes(reasons)) == {sample.labels["reason"] for sample in samples}


def manifest() -> list[dict[str, Any]]:
    text = (ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8")
    return list(yaml.safe_load_all(text))


def test_the_manifest_fits_the_server() -> None:
    secret, deployment, service = manifest()
    assert [part["kind"] for part in manifest()] == ["Secret", "Deployment", "Service"]
    template = deployment["spec"]["template"]
    pod = template["spec"]
    (container,) = pod["containers"]
    probes = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {probe["path"] for probe in probes.values()} <= PROBES
    assert probes["livenessProbe"]["path"] == "/health/live"
    (port,) = container["ports"]
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert port["containerPort"] == options()["--port"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    labels = template["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == secret["metadata"]["name"]
    assert volume["secret"]["defaultMode"] == 0o440
    (mount,) = container["volumeMounts"]
    given = container["args"]
    keys = given[given.index("--keys") + 1]
    assert keys == f"{mount['mountPath']}/{next(iter(secret['stringData']))}"
    grace = float(given[given.index("--grace") + 1])
    before = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > before + grace + 1


def test_the_container_starts_the_server_and_keeps_to_the_manifest() -> None:
    text = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    entry, command = (
        json.loads(re.findall(rf"^{word} (\[.*\])$", text, re.M)[0])
        for word in ("ENTRYPOINT", "CMD")
    )
    assert entry == ["trivet"] and command[0] == "serve"
    pod = manifest()[1]["spec"]["template"]["spec"]
    given = pod["containers"][0]["args"]
    assert given[: len(command)] == command
    assert {word for word in given if word.startswith("--")} <= set(options())
    assert f"USER {pod['securityContext']['runAsUser']}\n" in text
    assert f"EXPOSE {options()['--port']}\n" in text
    assert set(re.findall(r"request\('GET', '([^']*)'\)", text)) <= PROBES
    assert "'.[serve]'" in text


def test_the_unit_and_the_proxy_wait_as_long_as_the_server() -> None:
    unit, proxy = (
        (ROOT / "deploy" / name).read_text() for name in ("trivet.service", "nginx.conf")
    )
    known = options()
    assert set(re.findall(r"--[a-z-]+", unit)) <= set(known)
    seconds = dict(re.findall(r"(TimeoutStopSec|\w+_timeout)[= ](\d+)s?;?$", unit + proxy, re.M))
    assert int(seconds["TimeoutStopSec"]) > known["--grace"]
    assert int(seconds["keepalive_timeout"]) < known["--header-timeout"]
    assert int(seconds["proxy_read_timeout"]) > known["--max-timeout-ms"] / 1000
    assert f"server 127.0.0.1:{known['--port']};" in proxy


def test_every_extra_that_is_named_exists() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "".join(document.read_text(encoding="utf-8") for document in documents)
    named = set(re.findall(r"pip install [^`\n]*'(?:trivet|\.)\[([\w,-]+)\]'", text))
    assert {"serve", "client", "files"} <= named
    assert {extra for names in named for extra in names.split(",")} <= set(
        PROJECT["optional-dependencies"]
    )
