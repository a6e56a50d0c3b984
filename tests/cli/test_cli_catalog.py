"""`surrogate catalog list|show`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from surrogate.catalog import load_kind
from surrogate.cli.catalog import catalog_app
from surrogate.errors import UnknownNameError

RUNNER = CliRunner()


@pytest.mark.parametrize("kind", ["accelerators", "models", "interconnects", "clusters"])
def test_list_as_json_holds_every_entry_in_si_units(kind: str) -> None:
    result = RUNNER.invoke(catalog_app, ["list", kind, "--json"])
    assert result.exit_code == 0
    assert len(json.loads(result.stdout)) == len(load_kind(kind))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("accelerators", ["H100-80GB", "TFLOP/s", "989.4", "GiB", "79.65"]),
        ("models", ["llama3-70b", "70.55", "params"]),
        ("interconnects", ["NVLink4", "GB/s", "450"]),
        ("clusters", ["Gbit/s", "1600"]),
    ],
)
def test_list_prints_values_with_units(kind: str, texts: list[str]) -> None:
    result = RUNNER.invoke(catalog_app, ["list", kind])
    assert result.exit_code == 0
    assert all(text in result.stdout for text in texts)


def test_show_prints_units_and_sources() -> None:
    result = RUNNER.invoke(catalog_app, ["show", "h20"])
    assert result.exit_code == 0
    for text in ("H20-96GB", "148 TFLOP/s", "4000 GB/s", "400 Gbit/s", "sources", "2023-11"):
        assert text in result.stdout


def test_show_as_json() -> None:
    (entry,) = json.loads(RUNNER.invoke(catalog_app, ["show", "llama3-8b", "--json"]).stdout)
    assert (entry["num_layers"], entry["published_params"]) == (32, 8.03e9)


def test_show_finds_clusters_by_name() -> None:
    entries = json.loads(RUNNER.invoke(catalog_app, ["show", "Selene", "--json"]).stdout)
    assert {entry["cluster"] for entry in entries} == {"Selene"}


def test_unknown_name_and_kind() -> None:
    assert isinstance(RUNNER.invoke(catalog_app, ["show", "H101"]).exception, UnknownNameError)
    assert RUNNER.invoke(catalog_app, ["list", "gpus"]).exit_code == 2
