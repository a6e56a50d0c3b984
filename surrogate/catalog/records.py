"""What an entry of the catalogue must hold, checked with pydantic where a user's own text enters."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from surrogate.catalog.files import Row
from surrogate.errors import InputError

Positive = Annotated[float, Field(gt=0)]
Size = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Month = Annotated[str, Field(pattern=r"^\d{4}-\d{2}$")]
NameList = str | list[str]

_PEAKS = ("fp32_tflops_per_s", "tf32_tflops_per_s", "bf16_tflops_per_s", "fp16_tflops_per_s", "fp8_tflops_per_s")


class AcceleratorRecord(BaseModel):
    """One row of the accelerators table, in the units its columns name."""

    model_config = ConfigDict(extra="forbid")

    name: str
    aliases: NameList = ""
    vendor: str = "own"
    architecture: str = "other"
    form: str = ""
    hbm_gib_usable: Positive
    hbm_gbytes_per_s: Positive
    fp32_tflops_per_s: Positive | None = None
    tf32_tflops_per_s: Positive | None = None
    bf16_tflops_per_s: Positive | None = None
    fp16_tflops_per_s: Positive | None = None
    fp8_tflops_per_s: Positive | None = None
    fp4_tflops_per_s: Positive | None = None
    int8_tops_per_s: Positive | None = None
    fast_link: str = ""
    fast_topology: Literal["switch", "mesh", "cube-mesh", "partial-mesh", "torus", "host"] = "switch"
    fast_link_gbytes_per_s: Positive
    fast_domain_gpus: Size
    gpus_per_node: Size
    nic_gbit_per_s: Positive
    host_link: str = ""
    host_link_gbytes_per_s: Positive
    host_link_source: str = "stated by the user"
    sm_count: Size | None = None
    boost_mhz: Positive | None = None
    tdp_w: Positive | None = None
    release: Month | Literal[""] = ""
    verified: str = "stated by the user"
    sources: NameList
    notes: str = ""

    @model_validator(mode="after")
    def _has_a_peak(self) -> AcceleratorRecord:
        if all(getattr(self, peak) is None for peak in _PEAKS):
            raise InputError("bf16_tflops_per_s", "must be given (or another dense peak)", None, ", ".join(_PEAKS))
        return self


class ModelRecord(BaseModel):
    """One row of the models table."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    name: str
    aliases: NameList = ""
    date: Month | Literal[""] = ""
    num_layers: Size
    hidden_size: Size
    ffn_hidden_size: Size
    num_heads: Size
    num_kv_heads: Size
    head_dim: Size
    vocab_size: Size
    max_seq_len: Size
    gated_mlp: bool
    tied_embeddings: bool
    attention: Literal["mha", "gqa", "mqa", "mla"]
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    positions: str = "rope"
    parallel_block: bool = False
    bias: Literal["none", "qkv", "attn", "mlp", "all"] = "none"
    sliding_window: Size | None = None
    windowed_layers_fraction: Annotated[float, Field(gt=0, le=1)] | None = None
    num_experts: Count = 0
    moe_top_k: Count = 0
    moe_ffn_hidden_size: Size | None = None
    num_shared_experts: Count = 0
    num_dense_layers: Count | None = None
    q_lora_rank: Count | None = None
    kv_lora_rank: Count | None = None
    qk_nope_head_dim: Count | None = None
    qk_rope_head_dim: Count | None = None
    v_head_dim: Count | None = None
    num_mtp_layers: Count = 0
    published_params_b: Positive | None = None
    published_active_params_b: Positive | None = None
    count_deviation: str = ""
    sources: NameList


_RECORDS: dict[str, type[BaseModel]] = {"accelerators": AcceleratorRecord, "models": ModelRecord}


def validated_row(kind: str, entry: Mapping[str, object], columns: list[str]) -> Row:
    """Return an entry as a row of text like those of the packaged table.

    Raises
    ------
    InputError
        For the first value that is missing, unknown or impossible.
    """
    try:
        record = _RECORDS[kind].model_validate(entry)
    except ValidationError as error:
        raise _input_error(kind, entry, error, columns) from error
    values = record.model_dump()
    return {column: _cell(values[column]) for column in columns}


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ";".join(map(str, value)) if isinstance(value, list) else str(value)


def _input_error(kind: str, entry: Mapping[str, object], error: ValidationError, columns: list[str]) -> InputError:
    first = min(error.errors(), key=lambda problem: problem["type"] != "extra_forbidden")  # a typo explains the rest
    key = str(first["loc"][0])
    field = f"{kind}.{entry.get('name')}.{key}"
    if first["type"] == "extra_forbidden":
        near = get_close_matches(key, columns, n=3)
        return InputError(field, "must be a known key", key, f"did you mean {', '.join(near)}?" if near else "")
    if first["type"] == "missing":
        return InputError(field, "must be given", None, "or start from a known entry: based_on = NAME")
    return InputError(field, str(first["msg"]).replace("Input should", "must").lower(), first["input"])
