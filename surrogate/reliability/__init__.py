"""Failures, checkpoints and goodput: how much of a cluster's time trains, and what the rest is lost to."""
