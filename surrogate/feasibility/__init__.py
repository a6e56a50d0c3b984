"""What fits: the nearest layouts that do, the largest and the fewest that still do, and which item to attack."""

from typing import TYPE_CHECKING

from surrogate.lazy import lazy_names

if TYPE_CHECKING:
    from surrogate.feasibility._candidates import PlanPredictor, is_placeable
    from surrogate.feasibility._explain import ItemAdvice, items_to_attack
    from surrogate.feasibility._inverse import (
        MAXIMUM_FIELDS,
        MINIMUM_FIELDS,
        InverseAnswer,
        largest_that_fits,
        smallest_that_fits,
    )
    from surrogate.feasibility._nearest import NearbyLayout, nearest_layouts

__getattr__ = lazy_names(
    __name__,
    {
        "_candidates": ("PlanPredictor", "is_placeable"),
        "_explain": ("ItemAdvice", "items_to_attack"),
        "_inverse": ("MAXIMUM_FIELDS", "MINIMUM_FIELDS", "InverseAnswer", "largest_that_fits", "smallest_that_fits"),
        "_nearest": ("NearbyLayout", "nearest_layouts"),
    },
)

__all__ = [
    "MAXIMUM_FIELDS",
    "MINIMUM_FIELDS",
    "InverseAnswer",
    "ItemAdvice",
    "NearbyLayout",
    "PlanPredictor",
    "is_placeable",
    "items_to_attack",
    "largest_that_fits",
    "nearest_layouts",
    "smallest_that_fits",
]
