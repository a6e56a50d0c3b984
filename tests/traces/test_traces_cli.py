"""The verb: tables, JSON, page, files, and one sentence for what cannot be used."""

import json

import pytest
import typer
from typer.testing import CliRunner

from surrogate.cli.trace import trace
from surrogate.errors import FileFormatError
from surrogate.report.trace_page import MAX_PATH_BARS, path_figure, render_trace_page
from surrogate.traces import analyse_traces, parse_edit, read_trace
from surrogate.traces.critical_path import PathPart

app = typer.Typer()
app.command()(trace)


def _run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_tables(plain):
    result = _run(plain, "--replay", "--what-if", "matmul=2,collective_bandwidth=2")
    assert result.exit_code == 0, result.output
    for text in (
        "step time 0.300 ms",
        "step 1",
        "matmul",
        "allreduce over 2: bus bandwidth 40.0 GB/s",
        "+0.00%",
        "x as fast",
    ):
        assert text in result.output


def test_json(plain):
    result = _run(plain, "--replay", "--json")
    report = json.loads(result.stdout)
    (rank,) = report["ranks"]
    assert report["step_time_s"] == pytest.approx(300e-6)
    assert rank["whole"]["busy_s"] == pytest.approx(660e-6)
    assert rank["whole"]["exposed_communication_s"] == pytest.approx(150e-6)
    assert rank["steps"][0]["launched"]["busy_s"] == pytest.approx(220e-6)
    assert report["replay"]["replayed_step_s"] == pytest.approx(300e-6)
    assert report["replay"]["relative_error"] == pytest.approx(0.0, abs=1e-9)
    assert report["dependencies_only_step_s"] == pytest.approx(300e-6, rel=0.02)
    assert report["what_if"] is None


def test_ranks(fixtures):
    report = json.loads(_run(fixtures / "two_ranks", "--json").stdout)
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    assert report["stragglers"][0]["rank"] == 1


def test_pipeline_folder(fixtures):
    facts = json.loads(_run(fixtures / "pipeline", "--what-if", "microbatches=16", "--json").stdout)
    assert facts["replayed_step_s"] == pytest.approx(facts["measured_step_s"])
    assert facts["predicted_step_s"] > facts["measured_step_s"]
    assert "measured_step_s" in _run(fixtures / "pipeline").output


def test_files(plain, tmp_path):
    result = _run(plain, "--to-runs", tmp_path / "runs.parquet", "--html", tmp_path / "page.html", "--json")
    assert json.loads(result.stdout)["to_runs"]["priors"].keys() == {"dp_intra"}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "Critical path" in page
    assert "plotly" in page


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("host_only", "no GPU events"),
        ("other_accelerator", "mtia_ccp_events"),
        ("cut_off", "cut off or damaged"),
    ],
)
def test_unusable_traces(fixtures, folder, sentence):
    result = _run(fixtures / folder / "trace.json")
    assert isinstance(result.exception, FileFormatError)
    assert sentence in str(result.exception)


def test_inference_is_said(fixtures):
    result = _run(fixtures / "inference_only" / "trace.json")
    assert result.exit_code == 0
    assert "no backward pass" in " ".join(result.output.split())


def test_page_escapes_and_needs_no_network(plain):
    report = analyse_traces([read_trace(plain)], edits=[parse_edit("matmul=2")])
    page = render_trace_page(report._replace(notes=("<b>note</b>",)), title="a <title>")
    assert "&lt;b&gt;note&lt;/b&gt;" in page
    assert "<h1>a &lt;title&gt;</h1>" in page
    assert 'src="http' not in page


def test_long_paths_are_cut_and_say_so():
    parts = [PathPart(0, "stream 7", "k", "matmul", 2.0 * n, 2.0 * n + 1) for n in range(MAX_PATH_BARS + 5)]
    figure = path_figure(parts)
    assert sum(len(bar.x) for bar in figure.data) == MAX_PATH_BARS
    assert "5 shortest parts not drawn" in figure.layout.xaxis.title.text
