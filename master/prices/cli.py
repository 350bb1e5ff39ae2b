"""`windlass master prices`: the price book that planning and costs count with."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from windlass.base.errors import InvalidConfig, WindlassError

app = typer.Typer(no_args_is_help=True, help="Show and replace the price book.")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="WINDLASS_DATA_DIR",
        help="The master's data folder.",
        show_default=False,
    ),
]


@app.command()
def show(
    instance_type: Annotated[
        str | None, typer.Argument(help="Show this instance type instead of the book.")
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", help="Show its price in this region.")
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Show its spot price.")] = False,
    data_dir: DataDirOption = None,
) -> None:
    """Show where the list prices come from and how old they are, or what one instance type costs."""
    from provisioner.money.price_book import open_book
    from provisioner.types import Market
    from windlass.cli.output.text import print_fields

    try:
        book = open_book(_folder(data_dir))
    except WindlassError as error:
        _fail(error)
    if instance_type is None:
        sizes = [
            (cloud, f"{len(x.types)} instance types") for cloud, x in book.table.clouds.items()
        ]
        days = book.age(datetime.now(UTC).date()).days
        about = [("as of", f"{book.table.as_of} ({days} days ago)"), ("file", str(book.file))]
        print_fields([*about, ("source", book.table.source), *sizes])
        return
    found = book.find(instance_type)
    if found is None:
        typer.echo(f"error: the price book has no instance type {instance_type}", err=True)
        raise typer.Exit(1)
    cloud, machine = found
    market = Market.SPOT if spot else Market.ON_DEMAND
    place = region or book.reference_region(cloud)
    price = book.price(cloud, place, instance_type, market)
    print_fields(
        [
            ("cloud", cloud),
            ("region", place),
            ("USD per hour", f"{price.usd_per_hour:.4f}"),
            ("as of", str(price.as_of)),
            ("note", price.note),
            ("GPUs", f"{machine.gpus} x {machine.gpu_model}" if machine.gpus else "none"),
            ("memory of a GPU", _gib(machine.gpu_memory_mib)),
            ("CPUs", machine.cpus),
            ("memory", _gib(machine.memory_mib)),
            ("network", f"{machine.network_gbps:g} Gbit/s" if machine.network_gbps else None),
        ]
    )


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="A price book as docs/budgets-and-costs.md has it.")],
    data_dir: DataDirOption = None,
) -> None:
    """Check a newer price book and put it into the data folder. A master that runs takes it within seconds."""
    from master.data_folder import of_a_master
    from provisioner.money.price_book import import_table

    try:
        folder = of_a_master(_folder(data_dir))
        table = import_table(file, folder, datetime.now(UTC).date())
    except (WindlassError, OSError) as error:
        _fail(error)
    typer.echo(f"The prices of {table.as_of} are in use: {table.source}")


def _gib(mib: int | None) -> str | None:
    return None if mib is None else f"{mib / 1024:g} GiB"


def _folder(given: Path | None) -> Path:
    from master.data_folder import default_folder

    return given or default_folder()


def _fail(error: Exception) -> NoReturn:
    if isinstance(error, InvalidConfig):
        for problem in error.problems:
            typer.echo(f"error: {error.what}: {problem}", err=True)
    else:
        typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1)
