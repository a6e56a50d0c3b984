"""Property: whatever a configuration file holds, reading it gives a report or a SurrogateError, soon."""

from __future__ import annotations

import json
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from surrogate.errors import SurrogateError
from surrogate.ingest.configs import CONFIG_FORMATS, ConfigReport, config_to_partial_plan, read_config_text
from surrogate.ingest.configs.arithmetic import evaluate
from surrogate.ingest.configs.shell import read_script
from surrogate.ingest.configs.shell_expand import Environment
from surrogate.ingest.configs.shell_test import decide

SHELL = """
A=(--num-layers 4 --hidden-size 64 --num-attention-heads 4)
if [ -z "$X" ] && [[ $Y == fp* ]]; then A+=(--bf16); else A+=("--fp16" ${Z:-1}); fi
for i in 1 2; do case $i in 1|2) B=$((i * 8)) ;; *) B=${A[0]#--} ;; esac; done
f() { torchrun --nnodes ${N:=2} --nproc_per_node 8 t.py "${A[@]}" --seq-length $1 | tee log; }
cat <<EOT > ds.json
{"zero_optimization": {"stage": ${S:-1}}, "train_batch_size": $(( 8 * 2 ))}
EOT
f 128; eval "$(echo $A)"; export TP=2 PP=`expr 1 + 1`
"""
YAML = """
trainer: {num_nodes: 2, devices: 8, precision: bf16}
parallelism: {dp: 2, tp: 2, pp: 1}
tokens: {micro_batch_size: 1, sequence_length: 128}
model:
  hidden_size: 64
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_layers: ${..model.hidden_size}
  name: &anchor x
  other: *anchor
zero_optimization: {stage: 1}
"""
PIECES = [
    "$",
    "${",
    "$((",
    "$(",
    "`",
    "'",
    '"',
    "(",
    ")",
    "{",
    "}",
    "\\",
    "\n",
    " ",
    ";",
    "|",
    "&&",
    "||",
    "<<E",
    "E\n",
]
PIECES += [
    "if",
    "then",
    "fi",
    "for x in",
    "do",
    "done",
    "case x in",
    "esac",
    "[[",
    "]]",
    "[",
    "]",
    "A=",
    "A+=(",
    "#",
    "=~",
]
PIECES += [
    "--num-layers ",
    "--hidden-size ",
    "--bf16",
    "12",
    "1e9",
    "-1",
    "X",
    "while",
    "function f",
    "((",
    "))",
    ":-",
    "%%",
]

common = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(text: str, format: str | None = None) -> None:
    start = time.perf_counter()
    try:
        report = read_config_text(text, format=format)
        check_report(report)
        config_to_partial_plan(report)
    except SurrogateError:
        pass
    assert time.perf_counter() - start < 10


def check_report(report: ConfigReport) -> None:
    for value in report.values.values():
        assert isinstance(value, bool | str) or value >= 0
    for column in ("num_layers", "num_gpus", "global_batch_size", "tp", "dp"):
        assert report.values.get(column, 1) > 0  # type: ignore[operator]


@common
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_shell_fragments(text: str) -> None:
    check(text, "megatron-script")
    check(text, "mlperf")
    read_script(text, Environment())


@common
@given(st.binary(max_size=400), st.sampled_from([None, *CONFIG_FORMATS]))
def test_binary_bytes(data: bytes, format: str | None) -> None:
    check(data.decode("utf-8", errors="replace"), format)


@common
@given(st.sampled_from([SHELL, YAML]), st.integers(0, 1000), st.integers(0, 1000), st.text(max_size=5), st.randoms())
def test_cut_and_shuffled_files(text: str, start: int, end: int, inserted: str, random: object) -> None:
    lines = text[:start] + inserted + text[min(start, end) :]
    check(lines)
    shuffled = lines.splitlines()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    check("\n".join(shuffled))


KEYS = ["model", "trainer", "parallelism", "tokens", "training", "zero_optimization", "train_batch_size", "num_layers"]
KEYS += [
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "model_type",
    "architectures",
    "text_config",
    "stage",
]
KEYS += [
    "pipe_parallel_size",
    "fsdp_config",
    "global_train_batch_size",
    "d_model",
    "n_heads",
    "moe_config",
    "mlp_only_layers",
]
KEYS += [
    "data_parallel_shard_degree",
    "flavor",
    "name",
    "job",
    "enabled",
    "fp16",
    "kv_lora_rank",
    "num_experts",
    "layer_types",
]
KEYS += [
    "model_config",
    "optim",
    "precision",
    "activation_checkpoint",
    "mode",
    "moe_layer_freq",
    "tensor_parallel_degree",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**20),
    st.floats(),
    st.sampled_from(
        ["auto", "llama3", "8B", "bf16", "${.x}", "${multiply:4,${model.d_model}}", "fp8", "", "none", "selective"]
    ),
    st.text(max_size=8),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)),
    max_leaves=25,
)


@common
@given(st.dictionaries(st.sampled_from(KEYS), trees, min_size=1, max_size=8), st.sampled_from([None, *CONFIG_FORMATS]))
def test_trees_of_any_shape(tree: dict[str, object], format: str | None) -> None:
    check(json.dumps(tree), format)
    check(yaml.safe_dump(tree), format)


@given(st.text(alphabet="0123456789+-*/%()?:<>=!&| ABx", max_size=60))
def test_arithmetic_is_total(expression: str) -> None:
    value = evaluate(expression, {"A": "3", "B": "x"})
    assert value is None or isinstance(value, int)


@given(st.lists(st.sampled_from(["!", "(", ")", "-z", "==", "-gt", "&&", "-o", "", "1", "fp8", "*", "]"]), max_size=30))
def test_conditions_are_total(items: list[str]) -> None:
    assert decide(items) in (True, False, None)


@pytest.mark.parametrize(
    "text",
    [
        "A=x\n" + "A=$A$A$A$A\n" * 200 + "t.py --num-layers $A",
        "f() { f; f; f; }; f\n" * 50,
        "for a in 1 2; do " * 3000 + "done; " * 3000,
        "(" * 50_000,
        "${" * 50_000,
        "$((" * 20_000 + "1" + "))" * 20_000,
        "if [ -f x ]; then A=1; else A=2; fi\n" * 3000,
        "{" * 5000,
        "[" * 5000,
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"{c}: &{c} [{','.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)),
        '{"a":' * 3000 + "1" + "}" * 3000,
        "x = " + "[" * 3000 + "]" * 3000,
        "num_layers " + "." * 400_000,
        "a <<E\n" * 20_000,
        "--num-layers " + "9" * 100_000 + " --hidden-size 1 --num-attention-heads 1",
        "x=`" + "a" * 300_000,
        'echo "' + "\\" * 100_001,
        "${x#" + "*" * 3000 + "}",
        "model: {a: '" + "${" * 3000 + "x" + "}" * 3000 + "'}\ntrainer: {}",
    ],
    ids=lambda text: text[:12].strip() or "blank",
)
def test_hostile_files_end_soon(text: str) -> None:
    check(text)
    check(text, "megatron-script")
