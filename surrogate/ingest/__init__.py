"""What teams already have, read into the terms of this package: training logs, configurations, exports."""

from surrogate.ingest.log import read_log
from surrogate.ingest.report import LogRegime, LogReport, LogRun
from surrogate.ingest.table import IngestResult, ingest_logs

__all__ = ["IngestResult", "LogRegime", "LogReport", "LogRun", "ingest_logs", "read_log"]
