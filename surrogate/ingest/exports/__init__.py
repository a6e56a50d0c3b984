"""Exports that teams already have: W&B and MLflow histories, nccl-tests output, matmul benchmarks."""

from surrogate.ingest.exports.calibration import LogCoefficient
from surrogate.ingest.exports.detect import ExportKind, detect_export
from surrogate.ingest.exports.history import RunHistory, read_histories
from surrogate.ingest.exports.matmul import MatmulMeasurement, parse_matmul, read_matmul
from surrogate.ingest.exports.matmul_fit import MatmulCalibration, calibrate_matmul, fit_matmul
from surrogate.ingest.exports.nccl import CollectiveMeasurement, parse_nccl_tests, read_nccl_tests
from surrogate.ingest.exports.nccl_fit import NetworkCalibration, calibrate_network, traffic_factor
from surrogate.ingest.exports.runs import read_history
from surrogate.ingest.exports.site_coefficients import TRANSFER_LOG_SD, matmul_coefficients, network_coefficients

__all__ = [
    "TRANSFER_LOG_SD",
    "CollectiveMeasurement",
    "ExportKind",
    "LogCoefficient",
    "MatmulCalibration",
    "MatmulMeasurement",
    "NetworkCalibration",
    "RunHistory",
    "calibrate_matmul",
    "calibrate_network",
    "detect_export",
    "fit_matmul",
    "matmul_coefficients",
    "network_coefficients",
    "parse_matmul",
    "parse_nccl_tests",
    "read_histories",
    "read_history",
    "read_matmul",
    "read_nccl_tests",
    "traffic_factor",
]
