"""One reader per framework."""

from surrogate.ingest.readers.base import LogReader, has_throughput
from surrogate.ingest.readers.registry import READERS, reader_names

__all__ = ["READERS", "LogReader", "has_throughput", "reader_names"]
