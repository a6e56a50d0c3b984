"""Plans: what is trained, on what, split how, validated before anything is computed."""

from surrogate.plan.huggingface import model_fields
from surrogate.plan.parse import (
    PlanError,
    apply_overrides,
    load_partial_plan,
    load_plan,
    parse_overrides,
    parse_partial_plan,
    parse_plan,
)
from surrogate.plan.plan import PLAN_COLUMNS, SECTION_COLUMNS, PartialPlan, Plan
from surrogate.plan.rows import plan_to_row, plans_to_frame, row_to_partial_plan, row_to_plan
from surrogate.plan.specs import ClusterSpec, ModelSpec, ParallelismSpec, TrainingSpec

__all__ = [
    "PLAN_COLUMNS",
    "SECTION_COLUMNS",
    "ClusterSpec",
    "ModelSpec",
    "ParallelismSpec",
    "PartialPlan",
    "Plan",
    "PlanError",
    "TrainingSpec",
    "apply_overrides",
    "load_partial_plan",
    "load_plan",
    "model_fields",
    "parse_overrides",
    "parse_partial_plan",
    "parse_plan",
    "plan_to_row",
    "plans_to_frame",
    "row_to_partial_plan",
    "row_to_plan",
]
