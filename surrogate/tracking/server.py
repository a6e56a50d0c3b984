"""MLflow's server on a store."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NoReturn

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


def serve_ui(command: UiCommand) -> NoReturn:
    """Become the server: signals and the exit code are its own."""
    os.execv(command.arguments[0], command.arguments)
