"""`surrogate ui`: MLflow's user interface on the tracked trainings."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from surrogate.cli.output import print_json

TrackingOption = Annotated[str | None, typer.Option(help="MLflow store [MLFLOW_TRACKING_URI, else mlruns/].")]
HostOption = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the store and the address as JSON and do not start.")]


def ui(
    tracking_uri: TrackingOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 5000,
    as_json: JsonOption = False,
) -> None:
    """Open MLflow's user interface: compare trainings, look at plots, load models."""
    from surrogate.tracking.server import serve_ui, ui_command

    command = ui_command(tracking_uri, host, port)
    if as_json:
        print_json({"uri": command.uri, "address": command.address, "command": list(command.arguments)})
        return
    typer.echo(f"{command.uri} at {command.address} (Ctrl-C stops it)")
    sys.stdout.flush()
    serve_ui(command)
