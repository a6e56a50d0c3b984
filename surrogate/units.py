"""Unit conversions, each written once: GB = 1e9 bytes, GiB = 2**30 bytes, network rates in bits."""

from typing import Final

KILO: Final = 1e3
MEGA: Final = 1e6
GIGA: Final = 1e9
TERA: Final = 1e12

MICRO: Final = 1e-6
MILLI: Final = 1e-3

KIB: Final = 2.0**10
MIB: Final = 2.0**20
GIB: Final = 2.0**30

BITS_PER_BYTE: Final = 8.0
BYTES_PER_S_PER_GBIT_PER_S: Final = GIGA / BITS_PER_BYTE

SECONDS_PER_MINUTE: Final = 60.0
SECONDS_PER_HOUR: Final = 3600.0
SECONDS_PER_DAY: Final = 86400.0
HOURS_PER_DAY: Final = 24.0
