"""What a row runs on: the catalogue's values unless the row says otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from surrogate.catalog import load_accelerators
from surrogate.errors import InputError, UnknownNameError
from surrogate.features.hardware import accelerator_family, hardware_of
from surrogate.features.imputation import Imputer


def hardware(runs):
    return hardware_of(runs, Imputer(runs))


def test_h100_of_the_catalogue(make_runs):
    h = hardware(make_runs({"precision": "bf16"}, {"precision": "fp8"}, {}))
    assert h.peak_flops_per_s == pytest.approx([989.4e12, 1978.9e12, 989.4e12], rel=1e-3)
    assert h.peak_16bit_flops_per_s == pytest.approx(989.4e12, rel=1e-3)
    assert h.hbm_bytes_per_s == pytest.approx(3.35e12, rel=1e-2)
    assert h.fast_link_bytes_per_s == pytest.approx(450e9)
    assert list(h.gpus_per_node) == list(h.fast_domain_gpus) == [8.0] * 3


def test_network_is_given_per_node_and_used_per_accelerator(make_runs):
    runs = make_runs({"inter_node_bytes_per_s": 100e9}, {"inter_node_bytes_per_s": 100e9, "gpus_per_node": 4}, {})
    bytes_per_s = hardware(runs).network_bytes_per_s
    assert bytes_per_s[:2] == pytest.approx([100e9 / 8, 100e9 / 4])
    assert bytes_per_s[2] == pytest.approx(load_accelerators()["H100-80GB"].nic_bytes_per_s)


def test_fast_domain(make_runs):
    runs = make_runs(
        {"accelerator": "GB200-186GB"},
        {"accelerator": "GB200-186GB", "nvlink_domain_gpus": 8},
        {"gpus_per_node": 4},
        {"accelerator": "TPUv5e"},
    )
    domain = hardware(runs).fast_domain_gpus
    assert list(domain[:3]) == [72.0, 8.0, 4.0]
    assert domain[3] >= 256.0


def test_families_cover_the_catalogue():
    families = {name: accelerator_family(device) for name, device in load_accelerators().items()}
    assert families["V100-32GB"] == "V100"
    assert families["A100-80GB"] == families["A800-80GB"] == "A100"
    assert families["H100-80GB"] == families["H200-141GB"] == families["H20-96GB"] == "H100"
    assert families["GB300"] == families["B200-180GB"] == "Blackwell"
    assert families["TPUv5p"] == "TPU"
    assert families["MI300X"] == families["Gaudi2"] == "other"


def test_whole_programs(make_runs):
    runs = make_runs(*({"accelerator": name} for name in ("H100-80GB", "TPUv5p", "Gaudi2", "Trainium1", "MI300X")))
    assert list(hardware(runs).whole_program) == [False, True, True, True, False]


def test_aliases_resolve(make_runs):
    assert hardware(make_runs({"accelerator": "h100"})).hbm_bytes_per_s[0] > 1e12


def test_unknown_accelerator_names_near_ones(make_runs):
    with pytest.raises(UnknownNameError, match="accelerator"):
        hardware(make_runs({"accelerator": "H1000"}))


def test_a_precision_the_device_lacks_runs_at_the_next_wider_rate(make_runs):
    assert hardware(make_runs({"accelerator": "A100-80GB", "precision": "fp8"})).peak_flops_per_s[0] == 312e12


def test_unknown_precision(make_runs):
    with pytest.raises(InputError, match="precision"):
        hardware(make_runs({"precision": "fp5"}))


def test_filled_columns_are_flagged(make_runs):
    runs = make_runs({"gpus_per_node": 8}, {})
    imputer = Imputer(runs)
    hardware_of(runs, imputer)
    np.testing.assert_array_equal(imputer.missing["gpus_per_node"], [False, True])
    np.testing.assert_array_equal(imputer.missing["inter_node_bytes_per_s"], [True, True])
    np.testing.assert_array_equal(imputer.missing["precision"], [True, True])
