"""Model presets: the architectures of well-known families, each with its published count and public source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from surrogate.catalog.files import Row, flag, optional_float, optional_int, read_table, split_list
from surrogate.catalog.names import NameIndex, build_index
from surrogate.catalog.user_files import user_catalog_path, with_user_rows
from surrogate.units import GIGA

_NOISE = ("meta", "instruct", "base", "hf", "chat", "it", "pt", "preview")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPreset:
    """One architecture, with the names of the runs table.

    None means that the quantity does not exist for the model (no window, no latent attention, no experts).
    """

    name: str
    aliases: tuple[str, ...]
    date: str
    """Month of publication, yyyy-mm."""
    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    """Width of a dense layer; unused where every layer is an expert layer."""
    num_heads: int
    num_kv_heads: int
    head_dim: int
    """For latent attention (MLA) the query-key width with and without rotary position together."""
    vocab_size: int
    """As in the checkpoint, without the padding a framework adds."""
    max_seq_len: int
    gated_mlp: bool
    tied_embeddings: bool
    attention: str
    norm: str
    positions: str
    parallel_block: bool
    bias: str
    """Which matrices have a bias: none, qkv, attn, mlp or all."""
    sliding_window: int | None
    windowed_layers_fraction: float | None
    num_experts: int
    moe_top_k: int
    moe_ffn_hidden_size: int | None
    num_shared_experts: int
    num_dense_layers: int | None
    q_lora_rank: int | None
    kv_lora_rank: int | None
    qk_nope_head_dim: int | None
    qk_rope_head_dim: int | None
    v_head_dim: int | None
    num_mtp_layers: int
    """Multi-token-prediction layers the model was trained with; the published count leaves them out."""
    published_params: float | None
    published_active_params: float | None
    count_deviation: str
    """Why the columns give a count more than 1 % away from the published one; empty where they do not."""
    sources: tuple[str, ...]


def model_from_row(row: Row) -> ModelPreset:
    """Build a preset from a row of a catalogue table."""
    return ModelPreset(
        name=row["name"],
        aliases=split_list(row["aliases"]),
        date=row["date"],
        num_layers=int(row["num_layers"]),
        hidden_size=int(row["hidden_size"]),
        ffn_hidden_size=int(row["ffn_hidden_size"]),
        num_heads=int(row["num_heads"]),
        num_kv_heads=int(row["num_kv_heads"]),
        head_dim=int(row["head_dim"]),
        vocab_size=int(row["vocab_size"]),
        max_seq_len=int(row["max_seq_len"]),
        gated_mlp=flag(row["gated_mlp"]),
        tied_embeddings=flag(row["tied_embeddings"]),
        attention=row["attention"],
        norm=row["norm"],
        positions=row["positions"],
        parallel_block=flag(row["parallel_block"]),
        bias=row["bias"],
        sliding_window=optional_int(row["sliding_window"]),
        windowed_layers_fraction=optional_float(row["windowed_layers_fraction"]),
        num_experts=int(row["num_experts"]),
        moe_top_k=int(row["moe_top_k"]),
        moe_ffn_hidden_size=optional_int(row["moe_ffn_hidden_size"]),
        num_shared_experts=int(row["num_shared_experts"]),
        num_dense_layers=optional_int(row["num_dense_layers"]),
        q_lora_rank=optional_int(row["q_lora_rank"]),
        kv_lora_rank=optional_int(row["kv_lora_rank"]),
        qk_nope_head_dim=optional_int(row["qk_nope_head_dim"]),
        qk_rope_head_dim=optional_int(row["qk_rope_head_dim"]),
        v_head_dim=optional_int(row["v_head_dim"]),
        num_mtp_layers=int(row["num_mtp_layers"]),
        published_params=optional_float(row["published_params_b"], GIGA),
        published_active_params=optional_float(row["published_active_params_b"], GIGA),
        count_deviation=row["count_deviation"],
        sources=split_list(row["sources"]),
    )


def load_models() -> dict[str, ModelPreset]:
    """Return every model preset by name, the user's own included."""
    return _load_models(user_catalog_path())


def model_index() -> NameIndex:
    """Return the index of model names and aliases."""
    return _model_index(user_catalog_path())


def resolve_model(name: str) -> ModelPreset:
    """Return the preset a name or alias means, whatever its case.

    Parameters
    ----------
    name : str
        ``"llama3-70b"``, ``"meta-llama/Llama-3.1-70B-Instruct"``, ...

    Raises
    ------
    UnknownNameError
        With near matches.

    Examples
    --------
    >>> resolve_model("meta-llama/Llama-3.1-70B-Instruct").name
    'llama3.1-70b'
    """
    return load_models()[model_index().resolve(name)]


@cache
def _load_models(user_path: str) -> dict[str, ModelPreset]:
    rows = with_user_rows("models", read_table("models"), user_path)
    return {row["name"]: model_from_row(row) for row in rows}


@cache
def _model_index(user_path: str) -> NameIndex:
    aliases = {name: preset.aliases for name, preset in _load_models(user_path).items()}
    return build_index("model", aliases, noise=_NOISE)
