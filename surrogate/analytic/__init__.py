"""The analytic cost model: pure functions over arrays, one per published equation."""
