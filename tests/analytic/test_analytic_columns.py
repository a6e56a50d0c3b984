"""One code path: a row alone equals the row in a column, and the order of rows does not matter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surrogate.analytic.communication import micro_batch_traffic, step_traffic
from surrogate.analytic.compute_bytes import elementwise_bytes_per_token
from surrogate.analytic.flops import forward_flops_per_token, layer_flops_per_token
from surrogate.analytic.groups import parallel_groups
from surrogate.analytic.model_flops import model_flops_per_token
from surrogate.analytic.model_parameters import layer_parameters, model_parameters, parameters_per_gpu
from surrogate.analytic.operators import kernel_launches_per_layer
from surrogate.analytic.optimizer import optimizer_bytes
from surrogate.analytic.recompute import hardware_flops_per_token
from surrogate.analytic.stages import largest_stage_layers, stage_layers

FUNCTIONS = (
    elementwise_bytes_per_token, forward_flops_per_token, hardware_flops_per_token, kernel_launches_per_layer,
    largest_stage_layers, layer_flops_per_token, layer_parameters, micro_batch_traffic, model_flops_per_token,
    model_parameters, optimizer_bytes, parallel_groups, parameters_per_gpu, stage_layers, step_traffic,
)  # fmt: skip


def leaves(result: object) -> Iterator[np.ndarray]:
    """Yield the arrays of nested named tuples."""
    if isinstance(result, np.ndarray):
        yield result
    else:
        for part in result:
            yield from leaves(part)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_a_row_alone_equals_the_row_in_any_column(make_random_workload, function, seed):
    w = make_random_workload(seed, 12)
    order = np.random.default_rng(seed).permutation(12)
    whole, permuted = list(leaves(function(w))), list(leaves(function(w.take(order))))
    alone = list(leaves(function(w.take(slice(3, 4)))))
    assert len(whole) > 0
    for column, shuffled, single in zip(whole, permuted, alone, strict=True):
        assert column.shape == (12,)
        assert np.all(np.isfinite(column))
        np.testing.assert_array_equal(column[order], shuffled)
        np.testing.assert_array_equal(column[3:4], single)


@given(seed=st.integers(0, 2**16))
def test_shared_groups_and_counts_change_nothing(make_random_workload, seed):
    w = make_random_workload(seed, 10)
    shared = {"groups": parallel_groups(w), "per_gpu": parameters_per_gpu(w)}
    for function in (micro_batch_traffic, step_traffic, optimizer_bytes):
        for one, other in zip(leaves(function(w)), leaves(function(w, **shared)), strict=True):
            np.testing.assert_array_equal(one, other)


@given(seed=st.integers(0, 2**16))
def test_gpus_hold_the_model_between_them(make_random_workload, seed):
    w = make_random_workload(seed, 30)
    model, per_gpu = model_parameters(w), parameters_per_gpu(w)
    largest = np.max([stage.total for stage in per_gpu], axis=0)
    everything = model.total + model.multi_token_prediction
    assert np.all(largest * w.tp * w.pp * w.ep >= 0.8 * everything / w.expert_tp)
    assert np.all(largest <= 2.0 * everything)
