"""Launch configurations of the common frameworks, read into runs-table columns and plans; nothing is executed."""

from surrogate.ingest.configs.derive import BatchRule
from surrogate.ingest.configs.megatron import read_megatron_arguments, read_megatron_dump
from surrogate.ingest.configs.plan import Missing, config_to_partial_plan, config_to_plan, missing_settings
from surrogate.ingest.configs.read import CONFIG_FORMATS, read_config, read_config_text
from surrogate.ingest.configs.report import ConfigReport, UnknownSetting

__all__ = [
    "CONFIG_FORMATS",
    "BatchRule",
    "ConfigReport",
    "Missing",
    "UnknownSetting",
    "config_to_partial_plan",
    "config_to_plan",
    "missing_settings",
    "read_config",
    "read_config_text",
    "read_megatron_arguments",
    "read_megatron_dump",
]
