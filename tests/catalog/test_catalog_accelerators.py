"""Accelerators: published peaks, names, fallbacks, physical sense."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surrogate.catalog import (
    RATES_BY_PRECISION,
    accelerator_columns,
    accelerator_table,
    canonical_accelerators,
    dense_peak_flops_per_s,
    dense_peaks_flops_per_s,
    load_accelerators,
    peak_rate_used,
    resolve_accelerator,
)
from surrogate.errors import InputError, UnknownNameError

PUBLISHED = list(csv.DictReader((Path(__file__).parent / "published_peaks.csv").read_text().splitlines()))
NAMES_IN_THE_RUNS = [
    *("V100-16GB", "V100-32GB", "A100-40GB", "A100-80GB", "H100-80GB", "H100-96GB", "H200-141GB", "B200-180GB", "B300"),
    *("GB200-186GB", "GB300", "MI300X", "Gaudi2", "TPUv4", "TPUv5e", "TPUv5p", "TPUv6e", "TPUv7x-Ironwood"),
    "Trainium1-NeuronCore",
]
ENTRIES = list(load_accelerators().values())


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['accelerator']}-{row['precision']}-{row['citation']}")
def test_dense_peak_agrees_with_the_published_one(row: dict[str, str]) -> None:
    peak = dense_peak_flops_per_s(row["accelerator"], row["precision"])
    assert peak == pytest.approx(float(row["dense_tflops_per_s"]) * 1e12, rel=1e-3)


@pytest.mark.parametrize("name", NAMES_IN_THE_RUNS)
def test_every_accelerator_of_the_runs_is_known_by_its_own_name(name: str) -> None:
    assert resolve_accelerator(name).name == name


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("H100", "H100-80GB"),
        ("h100", "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("DGX H100", "H100-80GB"),
        ("H20", "H20-96GB"),
        ("H200", "H200-141GB"),
        ("nvidia_h200", "H200-141GB"),
        ("B200", "B200-180GB"),
        ("GB200", "GB200-186GB"),
        ("GB200 NVL72", "GB200-186GB"),
        ("L40S", "L40S"),
        ("tpu v5p", "TPUv5p"),
        ("TPU v5 lite", "TPUv5e"),
        ("Trillium", "TPUv6e"),
        ("MI250X", "MI250X-GCD"),
        ("AMD Instinct MI300X", "MI300X"),
        ("A100-SXM4-40GB", "A100-40GB"),
    ],
)
def test_aliases(asked: str, found: str) -> None:
    assert resolve_accelerator(asked).name == found


@pytest.mark.parametrize("name", ["", "H300", "A100 PCIe 40GB", "H100 NVL", "L40", "gpu"])
def test_a_part_that_is_not_listed_is_never_taken_for_another(name: str) -> None:
    with pytest.raises(UnknownNameError, match="must be a known name"):
        resolve_accelerator(name)


def test_unknown_name_lists_near_matches() -> None:
    with pytest.raises(UnknownNameError) as caught:
        resolve_accelerator("H100-81GB")
    assert caught.value.near[0] == "H100-80GB"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_alias_belongs_to_its_own_entry(entry: object) -> None:
    for alias in (entry.name, *entry.aliases):
        assert resolve_accelerator(alias).name == entry.name


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry_is_cited_dated_and_physically_sensible(entry: object) -> None:
    assert entry.sources
    assert entry.verified
    assert entry.host_link_source.startswith(("read: ", "rate read: ", "assumed: "))
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", entry.release)
    assert 10 * 2**30 < entry.hbm_bytes < 300 * 2**30
    assert 0.3e12 < entry.hbm_bytes_per_s < 9e12
    assert entry.nic_bytes_per_s <= entry.fast_link_bytes_per_s
    assert entry.fast_domain_gpus % entry.gpus_per_node == 0 or entry.gpus_per_node % entry.fast_domain_gpus == 0
    assert (entry.bf16_flops_per_s or entry.fp16_flops_per_s) > (entry.fp32_flops_per_s or 0)
    assert (entry.fp8_flops_per_s or math.inf) >= entry.bf16_flops_per_s if entry.bf16_flops_per_s else True


def test_peak_from_the_clock() -> None:
    # H100: 132 SMs, 4 tensor cores each, 512 FMA per cycle, 1.83 GHz
    assert dense_peak_flops_per_s("H100", "bf16") == pytest.approx(132 * 4 * 512 * 2 * 1.83e9, rel=1e-3)
    # MI300X: 1,216 matrix cores, 256 FMA per cycle, 2.1 GHz
    assert dense_peak_flops_per_s("MI300X", "bf16") == pytest.approx(1216 * 256 * 2 * 2.1e9, rel=1e-3)


@pytest.mark.parametrize(
    ("accelerator", "precision", "rate"),
    [
        ("H100", "fp8", "fp8"),
        ("H100", "mxfp8", "fp8"),
        ("H100", "nvfp4", "fp8"),
        ("GB200", "nvfp4", "fp4"),
        ("A100", "fp8", "bf16"),
        ("A100", "tf32", "tf32"),
        ("TPUv5p", "fp8", "bf16"),
        ("V100", "bf16", "fp32"),
        ("V100", "fp16", "fp16"),
        ("MI350X", "tf32", "fp32"),
        ("TPUv5e", "int8", "int8"),
        ("Gaudi2", "int8", "bf16"),
    ],
)
def test_unsupported_precision_runs_at_the_next_wider_rate(accelerator: str, precision: str, rate: str) -> None:
    assert peak_rate_used(resolve_accelerator(accelerator), precision) == rate


def test_no_wider_rate_is_an_error_that_says_what_there_is() -> None:
    with pytest.raises(InputError, match=r"`precision` .* TPUv5p, got 'fp16': published are bf16, int8"):
        dense_peak_flops_per_s("TPUv5p", "fp16")


def test_unknown_precision() -> None:
    with pytest.raises(UnknownNameError, match="one of fp32"):
        dense_peak_flops_per_s("H100", "bf8")


@given(
    st.lists(
        st.tuples(st.sampled_from(NAMES_IN_THE_RUNS), st.sampled_from(["bf16", "fp8", "mxfp8", "nvfp4", None])),
        max_size=30,
    )
)
def test_columns_equal_single_look_ups(pairs: list[tuple[str, str | None]]) -> None:
    peaks = dense_peaks_flops_per_s([a for a, _ in pairs], [p for _, p in pairs])
    expected = [math.nan if p is None else dense_peak_flops_per_s(a, p) for a, p in pairs]
    np.testing.assert_array_equal(peaks, expected)


def test_columns_of_fields_and_names() -> None:
    columns = accelerator_columns(["H100", "A100", "H100", "TPUv5e"], ["hbm_bytes_per_s", "tdp_w"])
    np.testing.assert_allclose(columns["hbm_bytes_per_s"], [3.35e12, 2.039e12, 3.35e12, 0.819e12])
    np.testing.assert_array_equal(columns["tdp_w"], [700.0, 400.0, 700.0, np.nan])
    assert np.isnan(accelerator_columns(["H100", None], ["hbm_bytes"])["hbm_bytes"]).tolist() == [False, True]
    assert len(accelerator_table()["name"]) == len(ENTRIES)
    assert list(canonical_accelerators(["h100", None, "H200"])) == ["H100-80GB", None, "H200-141GB"]


def test_every_precision_of_the_runs_table_has_a_rule() -> None:
    from surrogate.schema import COLUMN_BY_NAME

    assert set(COLUMN_BY_NAME["precision"].allowed) <= set(RATES_BY_PRECISION)
