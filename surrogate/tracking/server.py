"""MLflow's server on a store."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from surrogate.tracking.store import locate_store


@dataclass(frozen=True, kw_only=True, slots=True)
class UiCommand:
    """How the user interface is started."""

    uri: str
    address: str
    arguments: tuple[str, ...]


def ui_command(tracking_uri: str | None, host: str, port: int) -> UiCommand:
    """Return the command that serves a store's user interface."""
    store = locate_store(tracking_uri)
    arguments = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store.uri]
    arguments += ["--host", host, "--port", str(port)]
    if store.artifacts is not None:
        store.artifacts.mkdir(parents=True, exist_ok=True)
        arguments += ["--default-artifact-root", store.artifacts.as_uri()]
    return UiCommand(uri=store.uri, address=f"http://{host}:{port}", arguments=tuple(arguments))


def serve_ui(command: UiCommand) -> int:
    """Run the server until it ends and return its exit code."""
    try:
        return subprocess.run(command.arguments, check=False).returncode
    except KeyboardInterrupt:
        return 0
