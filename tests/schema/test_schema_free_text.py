"""Settings that stand in words only are read; what a table says in columns stays."""

from __future__ import annotations

import pandas as pd
import pytest

from surrogate.schema.free_text import with_said_settings


def said(text: str, **columns: object) -> dict[str, object]:
    table = with_said_settings(pd.DataFrame([{"notes": text, **columns}]))
    return {name: value for name, value in table.iloc[0].items() if name != "notes" and not pd.isna(value)}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("PyTorch FSDP2, sharding group 256", {"fsdp": "fsdp2", "hsdp_shard": "256"}),
        ("FSDP=0 on the page", {"fsdp": "none"}),
        ("DP 1 x FSDP 256", {"fsdp": "gspmd"}),
        ("DP 64 x FSDP 1", {}),
        ("no torch.compile; per-op selective AC", {"compiled": "false", "recompute_kind": "op-selective"}),
        ("torch.compile + Float8, tensorwise", {"compiled": "true", "fp8_recipe": "current"}),
        (
            "recompute modules: core_attn; mock data",
            {"recompute_kind": "core-attention", "recompute_modules": "core_attn"},
        ),
        (
            "recompute modules: layernorm, moe_act",
            {"recompute_kind": "modules", "recompute_modules": "layernorm;moe_act"},
        ),
        ("recompute modules: none ([])", {}),
        ("attention/norm kernel: flash_attention2 + RMS kernel", {"attention_backend": "flash2", "fused_norm": "true"}),
        ("attention/norm kernel: torch", {"attention_backend": "torch", "fused_norm": "false"}),
        ("126M without flash attention", {}),
        ("HybridEP dispatcher, EP overlap off", {"moe_dispatcher": "hybridep", "ep_overlap": "false"}),
        ("TE CUDA graphs on moe_router + moe_preprocess", {"cuda_graphs": "te:moe_router+moe_preprocess"}),
        ("remat_policy=minimal", {"recompute_modules": "maxtext:minimal"}),
        ("remat_policy=full", {}),
        ("checkpoint policy SAVE_DOT_ONLY in config", {"recompute_modules": "pax:SAVE_DOT_ONLY"}),
        ("expert TP (ETP) 4", {"expert_tp": "4"}),
        ("nothing of interest", {}),
    ],
)  # fmt: skip
def test_phrases(text: str, settings: dict[str, object]):
    assert said(text) == settings


def test_a_column_of_the_table_is_its_own_answer():
    assert said("PyTorch FSDP2; torch.compile", fsdp=None) == {"compiled": "true"}
    assert said("PyTorch FSDP2", fsdp="fsdp1") == {"fsdp": "fsdp1"}


def test_rows_are_read_one_by_one_from_both_columns():
    table = pd.DataFrame({"variant": ["FSDP2", None, None], "notes": [None, "DeepEP", None]})
    read = with_said_settings(table)
    assert read["fsdp"].fillna("").tolist() == ["fsdp2", "", ""]
    assert read["moe_dispatcher"].fillna("").tolist() == ["", "deepep", ""]
    assert list(table.columns) == ["variant", "notes"]


def test_a_table_without_words_stays_as_it_is():
    table = pd.DataFrame({"tp": [1]})
    assert with_said_settings(table) is table


def test_an_empty_table_stays_empty():
    assert with_said_settings(pd.DataFrame({"notes": pd.Series([], dtype="str")})).empty


def test_a_pod_is_as_large_as_it_says():
    table = pd.DataFrame({"nvlink_domain_gpus": ["pod 256", "72", None]})
    assert with_said_settings(table)["nvlink_domain_gpus"].fillna("").tolist() == ["256", "72", ""]
