"""Copying checkpoints to this machine, and what is shown of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from windlass.base.checkpoint_states import DownloadFrom
from windlass.cli.output.progress import transfer
from windlass.cli.output.text import print_fields, state_name
from windlass.cli.output.times import UtcOption, local_time
from windlass.sdk.client import Client
from windlass.sdk.wire import Json

OutputDirOption = Annotated[
    Path | None,
    typer.Option("-o", "--output-dir", help="Write into this directory: checkpoints/UUID."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """Of commands that copy a checkpoint to this machine."""

    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Print only the path of the checkpoint.")
    ] = False
    mode: Annotated[
        DownloadFrom,
        typer.Option(
            "--mode",
            help="direct: from the storage; master: through the master; auto: direct, else through the master.",
        ),
    ] = DownloadFrom.AUTO
    trust_host: Annotated[
        list[str] | None,
        typer.Option(
            "--trust-host",
            metavar="HOST",
            help="Send this machine's cloud credentials also to a storage at this address (HOST or HOST:PORT); may be "
            "repeated. Without it only the provider and the cluster's own storage get them.",
        ),
    ] = None
    utc: UtcOption = False

    def fetch(self, client: Client, checkpoint: Json, target: Path) -> None:
        from windlass.sdk.downloads import download_checkpoint

        with transfer(f"Downloading {checkpoint['uuid']}") as report:
            download_checkpoint(
                client,
                checkpoint,
                target,
                mode=self.mode,
                trusted_hosts=self.trust_host or (),
                report=report,
            )

    def tell(self, checkpoint: Json, target: Path) -> None:
        """Where it is now."""
        if self.quiet:
            typer.echo(target)
        else:
            show(checkpoint, target)


def without_metric(checkpoint: Json) -> str:
    """Why nobody can say how good it is by the searcher's metric; empty: it has that."""
    training = checkpoint.get("training") or {}
    if training.get("searcherMetric") is not None:
        return ""
    searcher = (training.get("experimentConfig") or {}).get("searcher") or {}
    reported = (training.get("validationMetrics") or {}).get("avgMetrics") or {}
    return (
        f'it has no value of the searcher\'s metric "{searcher.get("metric", "")}"; reported there: '
        f"{', '.join(sorted(reported)) or 'nothing'}"
    )


def size_of(checkpoint: Json) -> int:
    """Of its files, in bytes."""
    return sum(int(size) for size in (checkpoint.get("resources") or {}).values())


def show(checkpoint: Json, path: Path | None) -> None:
    training = checkpoint.get("training") or {}
    print_fields(
        [
            ("path", path),
            ("checkpoint", checkpoint["uuid"]),
            ("state", state_name(checkpoint["state"])),
            ("experiment", training.get("experimentId")),
            ("trial", training.get("trialId")),
            ("steps", (checkpoint.get("metadata") or {}).get("steps_completed")),
            ("reported", local_time(checkpoint.get("reportTime"))),
            ("bytes", size_of(checkpoint)),
            ("metrics", (training.get("validationMetrics") or {}).get("avgMetrics")),
            ("metadata", checkpoint.get("metadata")),
        ]
    )
