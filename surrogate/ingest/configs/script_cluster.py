"""How many machines a launch script asks for: `#SBATCH` lines, launcher arguments, the usual variable names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from surrogate.ingest.configs.arguments import Arguments
from surrogate.ingest.configs.report import Draft, why_unknown
from surrogate.ingest.configs.scalars import as_count, as_text
from surrogate.ingest.configs.shell_expand import Environment

_SBATCH: Final = re.compile(r"^[ \t]*#SBATCH[ \t]+(--?)([\w-]+)(?:[ \t=]+|(?=\d))([^\s#]*)", re.MULTILINE)
_SHORT: Final = {"N": "nodes", "n": "ntasks", "G": "gpus", "C": "constraint"}
_ACCELERATOR: Final = re.compile(
    r"(?<![A-WYZa-wyz])(GB300|GB200|B300|B200|GH200|H200|H100|H800|A800|A100|V100|L40S"
    r"|MI355X|MI350X|MI325X|MI300X|MI250X)(?![0-9])",
    re.IGNORECASE,
)
NODE_NAMES: Final = ("NNODES", "NUM_NODES", "NNODE", "NODES", "DGXNNODES", "SLURM_NNODES")
GPU_NAMES: Final = ("GPUS_PER_NODE", "NPROC_PER_NODE", "NUM_GPUS_PER_NODE", "GPU_PER_NODE", "GPN", "DGXNGPU", "NGPUS")


def sbatch_settings(text: str) -> dict[str, str]:
    """Return the `#SBATCH` options of a script by long name; an option given twice keeps its last value."""
    found: dict[str, str] = {}
    for dashes, name, value in _SBATCH.findall(text[:20_000]):
        found[name if dashes == "--" else _SHORT.get(name, name)] = value
    return found


def slurm_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what Slurm would set in the job's environment, as far as the options say."""
    nodes = (settings.get("nodes") or "").split("-")[0]
    variables = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes}
    variables["SLURM_NTASKS_PER_NODE"] = settings.get("ntasks-per-node", "")
    gpus = sbatch_gpus(settings)
    variables["SLURM_GPUS_ON_NODE"] = variables["SLURM_GPUS_PER_NODE"] = str(gpus) if gpus else ""
    tasks = as_count(settings.get("ntasks-per-node"))
    if tasks and as_count(nodes):
        variables["SLURM_NTASKS"] = str(tasks * int(nodes))
    return {name: value for name, value in variables.items() if value}


def sbatch_gpus(settings: Mapping[str, str]) -> int | None:
    """Return accelerators per node from `--gres=gpu:a100:8` or `--gpus-per-node=8`."""
    for name in ("gres", "gpus-per-node"):
        found = re.search(r"(?:^|:)(\d{1,4})(?:$|,|\()", settings.get(name, ""))
        if found:
            return as_count(found.group(1))
    return None


def read_cluster(draft: Draft, arguments: Arguments, environment: Environment, sbatch: Mapping[str, str]) -> None:
    """Fill `num_gpus` and `gpus_per_node` from launcher arguments, `#SBATCH` lines and variables, in that order."""
    raw_nodes = arguments.raw("nnodes", "num_nodes") or sbatch.get("nodes") or _variable(environment, NODE_NAMES)
    raw_gpus = arguments.raw("nproc_per_node", "num_gpus", "gpus_per_node") or sbatch_gpus(sbatch)
    raw_gpus = raw_gpus or _variable(environment, GPU_NAMES) or arguments.raw("ntasks_per_node")
    nodes = as_count(str(raw_nodes).split(":")[-1]) if raw_nodes is not None else None
    gpus = as_count(raw_gpus)
    draft.put("gpus_per_node", gpus)
    if draft.integer("num_gpus"):
        return
    if nodes and gpus:
        draft.put("num_gpus", nodes * gpus)
        _note_defaults(draft, environment, (*NODE_NAMES, *GPU_NAMES))
        return
    world = as_count(environment.scalar("WORLD_SIZE") or "")
    draft.put("num_gpus", world)
    why = why_unknown(raw_nodes) or why_unknown(raw_gpus) or "the number of nodes is not in the file"
    draft.ask("num_gpus", why)


def accelerator_names(texts: Iterable[str]) -> list[str]:
    """Return the accelerators that some texts name, longest name first where one contains another."""
    return list(dict.fromkeys(name.upper() for text in texts for name in _ACCELERATOR.findall(text)))


def ask_accelerator(draft: Draft, *hints: str | None) -> None:
    """Report the accelerator as unknown, repeating what names in the file suggest."""
    names = accelerator_names(filter(None, hints))
    suggestion = f"; names in it suggest {' or '.join(names[:3])}" if names else ""
    draft.ask("accelerator", f"the file does not say which{suggestion}")


def _variable(environment: Environment, names: Iterable[str]) -> str | None:
    return next((value for name in names if (value := as_text(environment.scalar(name)))), None)


def _note_defaults(draft: Draft, environment: Environment, names: Iterable[str]) -> None:
    for name in names:
        if name in environment.defaults_used:
            default = environment.defaults_used[name]
            draft.note(f"`{name}` may come from the environment; its default {default!r} in the file is taken")
