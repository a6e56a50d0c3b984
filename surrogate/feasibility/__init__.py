"""What fits: the nearest layouts that do, the largest and the fewest that still do, and which item to attack."""
