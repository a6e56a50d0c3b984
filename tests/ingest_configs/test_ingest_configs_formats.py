"""Hand-worked: small configurations of each format, written for these tests, one per oddity."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from surrogate.errors import FileFormatError, InputError, UnknownNameError
from surrogate.ingest.configs import (
    ConfigReport,
    config_to_partial_plan,
    config_to_plan,
    missing_settings,
    read_config,
    read_config_text,
    read_megatron_arguments,
)

SCRIPT = """
#!/bin/bash
PRECISION=fp8; TP=4
NNODES=${SLURM_NNODES:-4}
EXTRA=()
if [ "$PRECISION" = fp8 ]; then
  EXTRA+=("--fp8-format hybrid" --fp8-recipe tensorwise)
elif [ $PRECISION = fp16 ]; then
  EXTRA+=(--fp16)
fi
[[ $TP -gt 1 ]] && EXTRA+=(--sequence-parallel)
ARGS="--num-layers 48 --hidden-size 6144 --num-attention-heads 48 \\
   --seq-length 4096 --micro-batch-size 2 --global-batch-size $((NNODES * 8 * 2)) --bf16 --swiglu
   --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2
   --num-layers-per-virtual-pipeline-stage 6"
case $PRECISION in
  fp*) ARGS+=" --use-distributed-optimizer" ;;
  *) ARGS+=" --optimizer-cpu-offload" ;;
esac
srun bash -c "torchrun --nproc-per-node=8 --nnodes=$NNODES train.py $ARGS ${EXTRA[*]}" | tee log.txt
"""

SLURM_DEEPSPEED = """
#!/bin/bash
#SBATCH -N 4
#SBATCH --gpus-per-node=8
MBS=2
GBS=$(( $MBS * 4 * 8 / 2 ))
cat <<CONF > ds.json
{"train_batch_size": $GBS, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
CONF
cat > notes.txt <<'RAW'
--num-layers 1 $MBS
RAW
deepspeed --num_nodes $SLURM_NNODES pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \\
  --seq-length 1024 --micro-batch-size $MBS --global-batch-size $GBS --fp16 --checkpoint-activations \\
  --tensor-model-parallel-size 2 --deepspeed --deepspeed_config ds.json --zero-stage 3
"""


def read(text: str, **options: str) -> ConfigReport:
    return read_config_text(text, **options)


def test_script_follows_conditions_arrays_arithmetic_and_quoted_commands() -> None:
    values = read(SCRIPT).values
    assert {name: values[name] for name in ("num_layers", "tp", "pp", "vp", "global_batch_size", "num_gpus")} == {
        "num_layers": 48,
        "tp": 4,
        "pp": 2,
        "vp": 4,
        "global_batch_size": 64,
        "num_gpus": 32,
    }
    assert (values["precision"], values["fp8_recipe"], values["sequence_parallel"]) == ("fp8", "current", True)
    assert values["zero_stage"] == 1 and values["cpu_offload"] == "none"
    assert values["ffn_hidden_size"] == 16384, "8/3 h in multiples of 64 for a gated MLP"


def test_slurm_header_and_heredoc_deepspeed() -> None:
    report = read(SLURM_DEEPSPEED)
    values = report.values
    assert (values["num_gpus"], values["dp"], values["global_batch_size"]) == (32, 16, 32)
    assert (values["zero_stage"], values["cpu_offload"], values["precision"]) == (3, "params", "fp16")
    assert (values["recompute"], values["framework"], values["num_layers"]) == ("full", "megatron-deepspeed", 24)


def test_a_script_is_never_executed(tmp_path: object) -> None:
    target = f"{tmp_path}/made"
    text = f"touch {target}; X=$(touch {target})\n`touch {target}`\n" + SCRIPT.replace("srun", "eval")
    assert read(text).values["num_layers"] == 48
    assert not Path(target).exists()


def test_flags_before_variables_that_nobody_sets_are_still_given() -> None:
    text = (
        'RUN="t.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 ${EXTRA} --seq-length 8 --bf16 ${LOAD}"\n'
        'RUN="$RUN --use-distributed-optimizer $SP --recompute-granularity selective --recompute-modules mlp $MORE"\n'
        "eval ${RUN} | tee log.txt\n"
    )
    values = read(text).values
    assert (values["precision"], values["zero_stage"], values["num_heads"]) == ("bf16", 1, 4)
    assert values["recompute_modules"] == "mlp"


ARGS = "--num-layers $L --hidden-size 64 --num-attention-heads 4 --seq-length 8 --bf16"


@pytest.mark.parametrize(
    "text",
    [
        f"export L=3\nsrun -N 2 bash -lc 'M=4; torchrun --nnodes 2 --nproc_per_node $M t.py {ARGS}' > log\n",
        f"L=3\nread -r -d '' CMD <<EOF\ntorchrun --nnodes 2 --nproc_per_node 4 t.py {ARGS}\nEOF\n"
        'srun bash -c "$CMD"\n',
        f"L=3\nCMD=$(cat <<EOF\ntorchrun --nnodes 2 --nproc_per_node 4 t.py\n {ARGS}\nEOF\n)\neval $CMD\n",
        f'let L=1+2\nfor a in "$@"; do L=9; done\ntorchrun --nnodes 2 --nproc_per_node 4 t.py {ARGS}\n',
        "L=3; H=(a b)\ntorchrun --nnodes ${#H[@]} --nproc_per_node $(expr 2 + 2) t.py "
        f"{ARGS} --host $(hostname -s | head -1)\n",
        f"mkdir -p logs && L=3 || exit 1\n! [ -z $HOME ] && L=9\ntorchrun --nnodes 2 --nproc_per_node 4 t.py {ARGS}\n",
        f"L=3\ndeepspeed --num_nodes 2 --num_gpus 4 t.py \\\r\n  {ARGS}\r\n",
    ],
    ids=["bash -c", "read", "cat", "let", "lengths", "lists", "crlf"],
)
def test_ways_to_issue_the_command(text: str) -> None:
    report = read(text)
    values = report.values
    assert (values["num_layers"], values["num_gpus"], values["precision"]) == (3, 8, "bf16")
    assert not report.notes


def test_undecidable_branch_leaves_its_arguments_out_and_says_so() -> None:
    text = "ARGS='--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8'\n" + (
        'if nvidia-smi | grep -q H100; then ARGS="$ARGS --bf16 --fp8-format hybrid"; GPUS=8; else GPUS=4; fi\n'
        "torchrun --nproc_per_node $GPUS --nnodes 1 x.py $ARGS\n"
    )
    report = read(text)
    assert report.values["precision"] == "fp32"
    assert "gpus_per_node" not in report.values
    assert "GPUS, which depends on" in (report.reason("num_gpus") or "")
    assert any("ARGS" in note for note in report.notes)


def test_sourced_file_beside_the_script_is_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "sizes.sh").write_text("L=12\nexport H=768\n")
    script = tmp_path / "run.sh"
    script.write_text(
        "source $(dirname ${BASH_SOURCE[0]})/sizes.sh\n. /elsewhere/missing.sh\n"
        "python t.py --num-layers $L --hidden-size $H --num-attention-heads 12 --seq-length $SEQ\n"
    )
    report = read_config(script)
    assert (report.values["num_layers"], report.values["hidden_size"]) == (12, 768)
    assert report.reason("seq_len") == "`SEQ` is not set in the file"
    assert any("missing.sh" in note for note in report.notes)


def test_functions_loops_and_positional_arguments() -> None:
    text = (
        "run() {\n  torchrun --nnodes 1 --nproc_per_node 2 t.py --num-layers $1 --hidden-size 64"
        " --num-attention-heads 4 --seq-length 128 --micro-batch-size $2\n}\n"
        "while [ $# -gt 0 ]; do shift; done\nfor layers in 6; do run $layers 3; done\n"
    )
    values = read(text).values
    assert (values["num_layers"], values["micro_batch_size"], values["num_gpus"]) == (6, 3, 2)


def test_a_sweep_is_not_guessed() -> None:
    text = (
        "for TP in 1 2 4; do torchrun --nnodes 1 --nproc_per_node 8 t.py --num-layers 2 --hidden-size 64"
        " --num-attention-heads 4 --seq-length 128 --tensor-model-parallel-size $TP; done\n"
    )
    report = read(text)
    assert "tp" not in report.values
    assert "looped over 1 2 4" in (report.reason("tp") or "")


def test_bare_argument_list_and_log_dump_agree() -> None:
    line = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 128 --bf16 --kv-channels 32"
    dump = "\n".join(
        f"[rank0]:   {name} {'.' * (40 - len(name))} {value}"
        for name, value in {
            "num_layers": 2,
            "hidden_size": 64,
            "num_attention_heads": 4,
            "seq_length": 128,
            "bf16": True,
            "kv_channels": 32,
            "num_query_groups": 1,
            "group_query_attention": False,
            "recompute_granularity": None,
            "world_size": 8,
        }.items()
    )
    one, two = read(line), read(dump)
    assert (one.format, two.format) == ("megatron-script", "megatron-dump")
    same = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "seq_len", "precision", "recompute")
    assert [one.values[name] for name in same] == [two.values[name] for name in same]
    assert two.values["num_gpus"] == 8


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}, ("full", None)),
        ({"recompute_granularity": "full", "recompute_method": "block", "recompute_num_layers": 3}, ("full", 3)),
        ({"recompute_activations": True}, ("selective", None)),
        ({"activations_checkpoint_method": "uniform"}, ("full", None)),
        ({"recompute_granularity": "selective", "recompute_modules": "['mlp', 'moe_act']"}, ("selective", None)),
    ],
)
def test_recompute_arguments(given: dict[str, object], expected: tuple[str, int | None]) -> None:
    values = read_megatron_arguments(given).values
    assert (values["recompute"], values.get("recompute_layers")) == expected
    if "recompute_modules" in given:
        assert values["recompute_modules"] == "mlp;moe_act"
        assert values["recompute_kind"] == "modules"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"bf16": True, "fp8_format": "hybrid"}, ("fp8", "delayed")),
        ({"bf16": True, "fp8_format": "e4m3", "fp8_recipe": "mxfp8"}, ("mxfp8", "mxfp8")),
        ({"bf16": True, "fp8": "e4m3", "fp8_recipe": "blockwise"}, ("fp8", "blockwise")),
        ({"bf16": True, "fp8_hybrid": True}, ("fp8", "delayed")),
        ({"bf16": True, "fp4_format": "e2m1", "fp4_recipe": "nvfp4"}, ("nvfp4", "nvfp4")),
        ({"params_dtype": "torch.bfloat16"}, ("bf16", None)),
        ({"fp16": "True"}, ("fp16", None)),
        ({}, ("fp32", None)),
    ],
)
def test_precision_arguments(given: dict[str, object], expected: tuple[str, str | None]) -> None:
    values = read_megatron_arguments(given).values
    assert (values["precision"], values.get("fp8_recipe")) == expected


def test_sharding_dispatcher_and_optimizer_arguments() -> None:
    values = read_megatron_arguments(
        {
            "num-experts": 64,
            "moe-router-topk": 6,
            "moe-ffn-hidden-size": 1408,
            "moe-shared-expert-intermediate-size": 2816,
            "moe-layer-freq": "([0]*1+[1]*26)",
            "num-layers": 27,
            "moe-token-dispatcher-type": "flex",
            "moe-enable-deepep": True,
            "use-megatron-fsdp": True,
            "data-parallel-sharding-strategy": "optim_grads_params",
            "use-precision-aware-optimizer": True,
            "exp-avg-dtype": "bf16",
            "overlap-moe-expert-parallel-comm": True,
            "cp-comm-type": "a2a",
            "cuda-graph-impl": "transformer_engine",
            "cuda-graph-scope": ["attn", "moe_router"],
        }
    ).values
    assert (values["num_shared_experts"], values["num_dense_layers"]) == (2, 1)
    assert (values["moe_dispatcher"], values["zero_stage"], values["fsdp"]) == ("flex-deepep", 3, "megatron-fsdp")
    assert values["optimizer"] == "adam;precision_aware(main_params=fp32,main_grads=fp32,exp_avg=bf16,exp_avg_sq=fp32)"
    assert (values["ep_overlap"], values["cuda_graphs"], values["cp_comm_type"]) == (True, "te:attn+moe_router", "a2a")


def test_megatron_yaml_with_open_variables_and_a_layout() -> None:
    text = """
MODEL_ARGS:
  --num-layers: 61
  --hidden-size: 7168
  --num-attention-heads: 128
  --seq-length: ${SEQ_LEN}
  --pipeline-model-parallel-size: 8
  --tensor-model-parallel-size: ${TP}
  --pipeline-model-parallel-layout: Et*3|(tt|)*29m|L
  --multi-latent-attention: true
  --q-lora-rank: 1536
  --kv-lora-rank: 512
  --bf16: true
  --swiglu: true
"""
    report = read(text)
    assert report.format == "megatron-yaml"
    assert (report.values["vp"], report.values["attention"], report.values["kv_lora_rank"]) == (4, "mla", 512)
    assert report.reason("tp") == "`TP` is not set in the file"


def test_a_full_dump_with_every_default_printed() -> None:
    values = read_megatron_arguments(
        {
            "num_layers": "24",
            "hidden_size": "1024",
            "num_attention_heads": "16",
            "swiglu": "True",
            "cpu_offloading_num_layers": "0",
            "cp_comm_type": "['p2p']",
            "context_parallel_size": "2",
            "transformer_impl": "local",
            "use_flash_attn": "False",
            "moe_router_topk": "2",
            "num_experts": "None",
            "fp8": "None",
            "fp8_recipe": "delayed",
            "recompute_granularity": "None",
            "virtual_pipeline_model_parallel_size": "None",
            "use_distributed_optimizer": "False",
            "rampup_batch_size": "None",
            "window_size": "None",
            "params_dtype": "torch.float16",
            "bf16": "False",
            "fp16": "True",
        }
    ).values
    assert (values["cpu_offload"], values["cp_comm_type"], values["flash_attention"]) == ("none", "p2p", False)
    assert (values["precision"], values["num_experts"], values["vp"], values["zero_stage"]) == ("fp16", 0, 1, 0)
    assert (values["ffn_hidden_size"], values["recompute"]) == (2688, "none")
    assert "fp8_recipe" not in values and "sliding_window" not in values


def test_older_names_of_sizes_and_accumulation() -> None:
    line = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 8 --batch-size 2 --gas 8 --fp16"
    report = read(f"deepspeed --num_nodes 2 --num_gpus 8 t.py {line} --model-parallel-size 2 --pipe-parallel-size 4\n")
    values = report.values
    assert (values["tp"], values["pp"], values["dp"], values["micro_batch_size"]) == (2, 4, 2, 2)
    assert values["global_batch_size"] == 2 * 8 * 2
    pythia = '{"pipe-parallel-size": 1, "model-parallel-size": 1, "num-layers": 6, "hidden-size": 512,\n'
    pythia += '"num-attention-heads": 8, "train_micro_batch_size_per_gpu": 16, "gas": 2, "fp16": {"enabled": True}}\n'
    neox = read(pythia)
    assert neox.batch_rule.per_rank_batch_size == 32
    assert neox.values["precision"] == "fp16"


def test_the_config_of_a_tracked_run_is_unwrapped() -> None:
    settings = {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "seq_length": 128, "bf16": True}
    entries = (f"{name}:\n  desc: null\n  value: {value}\n" for name, value in settings.items())
    report = read("wandb_version: 1\n" + "".join(entries))
    assert (report.format, report.values["num_layers"], report.values["precision"]) == ("megatron-yaml", 2, "bf16")


NEMO = """
run: {name: small, results_dir: "${base_results_dir}/${.name}"}
trainer: {num_nodes: 2, devices: 8, precision: bf16-mixed, accumulate_grad_batches: 1}
model:
  micro_batch_size: 1
  global_batch_size: 32
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: null
  expert_model_parallel_size: 4
  encoder_seq_length: 4096
  num_layers: 8
  hidden_size: 1024
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: ${int_div:${model.hidden_size}, 64}
  num_query_groups: 4
  activation: fast-swiglu
  num_moe_experts: 8
  moe_router_topk: 2
  moe_expert_capacity_factor: 1.0
  fp8: true
  fp8_params: true
  activations_checkpoint_granularity: full
  activations_checkpoint_method: block
  activations_checkpoint_num_layers: 2
  optim: {name: distributed_fused_adam, overlap_grad_sync: true, grad_sync_dtype: bf16}
  sequence_parallel: ${oc.env:SP, True}
"""


def test_nemo_resolvers_experts_fp8_and_block_recompute() -> None:
    values = read(NEMO).values
    assert (values["ffn_hidden_size"], values["num_heads"], values["head_dim"]) == (4096, 16, 64)
    assert (values["precision"], values["fp8_recipe"], values["param_gather_dtype"]) == ("fp8", "delayed", "fp8")
    assert (values["recompute"], values["recompute_layers"]) == ("full", 2)
    assert (values["num_experts"], values["ep"], values["expert_tp"], values["moe_capacity_factor"]) == (8, 4, 2, 1.0)
    assert (values["num_gpus"], values["dp"], values["vp"], values["sequence_parallel"]) == (16, 4, 1, True)
    assert (values["zero_stage"], values["grad_reduce_dtype"]) == (1, "bf16")


def test_nemo_value_of_another_file_is_asked_for() -> None:
    report = read(NEMO.replace("num_layers: 8", "num_layers: ${other.num_layers}"))
    assert "num_layers" not in report.values
    assert "other.num_layers" in (report.reason("num_layers") or "")


def test_nemo_fsdp() -> None:
    text = NEMO.replace("distributed_fused_adam", "fused_adam") + "  fsdp: true\n  fsdp_sharding_strategy: grad\n"
    values = read(text).values
    assert (values["zero_stage"], values["fsdp"]) == (2, "fsdp1")


TITAN_OLD = """
[model]
name = "llama2"
flavor = "70B"
[training]
batch_size = 16
seq_len = 4096
data_parallel_degree = 8
tensor_parallel_degree = 8
compile = true
enable_fp8_linear = true
[experimental]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
"""


def test_old_torchtitan_degrees_under_training_and_experimental() -> None:
    values = read(TITAN_OLD).values
    assert (values["num_layers"], values["num_kv_heads"], values["vocab_size"]) == (80, 8, 32000)
    assert (values["dp"], values["tp"], values["pp"], values["num_gpus"]) == (8, 8, 2, 128)
    assert (values["global_batch_size"], values["micro_batch_size"]) == (128, 1)
    assert (values["precision"], values["compiled"], values["pipeline_schedule"]) == ("fp8", True, "interleaved-1f1b")
    assert (values["recompute"], values["recompute_kind"], values["recompute_layers"]) == ("selective", "full", 20)
    assert values["zero_stage"] == 2, "with pipeline stages parameters are kept gathered"


def test_new_torchtitan_hybrid_sharding_and_mx() -> None:
    text = """
[model]
name = "qwen3"
flavor = "30B-A3B"
converters = ["quantize.linear.mx"]
[training]
local_batch_size = 2
global_batch_size = 512
seq_len = 4096
enable_cpu_offload = true
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
expert_parallel_degree = 8
[activation_checkpoint]
mode = "none"
[debug]
moe_force_load_balance = true
"""
    values = read(text).values
    assert (values["hsdp_shard"], values["dp"], values["num_gpus"], values["global_batch_size"]) == (8, 16, 16, 512)
    assert (values["precision"], values["cpu_offload"], values["recompute"]) == ("mxfp8", "params", "none")
    assert (values["num_experts"], values["ep"], values["moe_force_balance"]) == (128, 8, True)


def test_torchtitan_unknown_flavor_is_asked_for() -> None:
    report = read('[model]\nname = "llama3"\nflavor = "debugmodel"\n[training]\nseq_len = 128\nlocal_batch_size = 1\n')
    assert "debugmodel" in (report.reason("num_layers") or "")


def test_nanotron_pipeline_expert_ranks_and_older_recompute() -> None:
    text = """
parallelism: {dp: 4, pp: 2, tp: 2, expert_parallel_size: 2, pp_engine: afab, tp_mode: ALL_REDUCE,
  recompute_granularity: selective}
tokens: {micro_batch_size: 2, batch_accumulation_per_replica: 8, sequence_length: 2048}
optimizer: {zero_stage: 1, accumulate_grad_in_fp32: false, optimizer_factory: {name: adamW}}
model:
  dtype: bfloat16
  model_config: {is_llama_config: true, hidden_size: 512, intermediate_size: 1024, num_attention_heads: 8,
    num_hidden_layers: 4, num_key_value_heads: 8, vocab_size: 1000, tie_word_embeddings: false,
    moe_config: {num_experts: 4}}
"""
    values = read(text).values
    assert (values["num_gpus"], values["dp"], values["global_batch_size"]) == (32, 8, 64)
    assert (values["pipeline_schedule"], values["sequence_parallel"], values["recompute"]) == (
        "gpipe",
        False,
        "selective",
    )
    assert (values["num_experts"], values["moe_top_k"], values["zero_stage"]) == (4, 2, 1)


def test_neox_moe_bfloat16_and_batch_that_gives_the_world() -> None:
    text = """
{
  # trained on 16 GPUs
  "pipe-parallel-size": 2, "model-parallel-size": 1,
  "num-layers": 12, "hidden-size": 768, "num-attention-heads": 12, "seq-length": 2048,
  "moe_num_experts": 8, "attention_config": [[["flash"], 12]], "precision": "bfloat16",
  "zero_optimization": {"stage": 1, "overlap_comm": True},
  "train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8,
  "activation": "swiglu", "num_kv_heads": 4,
}
"""
    values = read(text).values
    assert (values["dp"], values["num_gpus"]) == (8, 16)
    assert (values["precision"], values["flash_attention"], values["gated_mlp"]) == ("bf16", True, True)
    assert (values["num_experts"], values["moe_top_k"], values["attention"], values["recompute"]) == (
        8,
        1,
        "gqa",
        "none",
    )


def test_llm_foundry_experts_named_models_and_auto() -> None:
    base = "max_seq_len: 8192\nglobal_train_batch_size: 32\ndevice_train_microbatch_size: auto\nprecision: amp_fp8\n"
    moe = base + (
        "model: {name: mpt_causal_lm, d_model: 6144, n_heads: 48, n_layers: 40, vocab_size: 128256,\n"
        "  tie_word_embeddings: false, attn_config: {attn_impl: torch, kv_n_heads: 8},\n"
        "  ffn_config: {ffn_type: mb_dmoe, mlp_type: glu, moe_top_k: 4, moe_num_experts: 16, ffn_hidden_size: 10752,\n"
        "  moe_world_size: 8}}\nfsdp_config: {sharding_strategy: SHARD_GRAD_OP, activation_cpu_offload: true}\n"
    )
    report = read(moe)
    values = report.values
    assert (values["num_experts"], values["moe_top_k"], values["moe_ffn_hidden_size"], values["ep"]) == (
        16,
        4,
        10752,
        8,
    )
    assert (values["gated_mlp"], values["num_kv_heads"], values["flash_attention"]) == (True, 8, False)
    assert (values["zero_stage"], values["cpu_offload"], values["precision"]) == (2, "activations", "fp8")
    assert "auto" in (report.reason("micro_batch_size") or "")
    named = read(base + "model: {name: hf_causal_lm, pretrained_model_name_or_path: meta-llama/Llama-2-70b-hf}\n")
    assert (named.values["num_layers"], named.values["num_kv_heads"]) == (80, 8)


def test_mlperf_defaults_in_variables_and_a_system_name(tmp_path) -> None:  # type: ignore[no-untyped-def]
    script = tmp_path / "config_DGXH100_8x8x128xtp4pp2_8b.sh"
    script.write_text(
        'export MINIBS="${MINIBS:=4}"\nexport TENSOR_MODEL_PARALLEL="${TP:=4}"\nexport PIPELINE_MODEL_PARALLEL=2\n'
        "export INTERLEAVED_PIPELINE=null MICRO_BATCH_SIZE=2 MODEL_SIZE=8b\nexport DGXNNODES=8\n"
        "export FP4=True FP8=False\nexport WALLTIME=$((5 + ${NEXP:-1} * (10 + 5)))\n"
        "source $(dirname ${BASH_SOURCE[0]})/config_common.sh\n"
    )
    report = read_config(script)
    values = report.values
    assert (values["accelerator"], values["gpus_per_node"], values["num_gpus"]) == ("H100-80GB", 8, 64)
    assert (values["tp"], values["pp"], values["vp"], values["dp"]) == (4, 2, 1, 8)
    assert (values["global_batch_size"], values["precision"], values["num_layers"]) == (32, "nvfp4", 32)
    assert any("config_common.sh" in note for note in report.notes)


def test_deepspeed_batch_gives_data_parallel_size_only_with_a_layout() -> None:
    config = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    report = read(json.dumps(config | {"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}))
    assert report.values["hsdp_shard"] == 8
    assert report.values["dp"] == 8 and "num_gpus" not in report.values
    assert report.values["precision"] == "fp32"


def test_deepspeed_auto_precision_and_offload_are_unknown() -> None:
    text = '{"bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2, "offload_optimizer": "auto"}}'
    report = read(text)
    assert {"precision", "cpu_offload"} <= {setting.name for setting in report.unknown}


def test_missing_settings_come_in_one_error_with_the_way_out() -> None:
    report = read(SLURM_DEEPSPEED.replace("#SBATCH -N 4", ""))
    with pytest.raises(InputError) as caught:
        config_to_plan(report)
    message = str(caught.value)
    assert "accelerator" in message and "num_gpus" in message and "--set accelerator=..." in message
    assert "\n" not in message
    plan = config_to_plan(report, {"accelerator": "A100-80GB", "num_gpus": 32, "micro_batch_size": 1})
    assert (plan.dp, plan.training.micro_batch_size) == (16, 1)
    assert not missing_settings(report, config_to_partial_plan(report, {"accelerator": "A100-80GB", "num_gpus": 32}))


def test_an_override_that_is_no_field_is_refused() -> None:
    with pytest.raises(InputError, match="num_gpu"):
        config_to_plan(read(SCRIPT), {"num_gpu": 8})


def test_errors_name_the_file_and_the_formats(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FileFormatError, match="known formats"):
        read("just prose, nothing to read")
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_config(tmp_path / "absent.yaml")
    with pytest.raises(UnknownNameError, match="megatron-script"):
        read("{}", format="slurm")
    with pytest.raises(FileFormatError, match="nemo"):
        read("not: [valid", format="nemo")
