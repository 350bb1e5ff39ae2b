"""Rows as objects: what `fetch` makes of a SELECT, and what type checkers know of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import Connection, create_engine, func, insert, select
from sqlmodel import SQLModel

from master.store.sql.rows import fetch
from master.store.tables import Port, Project, Workspace

ROOT = Path(__file__).parents[3]


class Placed(NamedTuple):
    project: Project
    number: int
    workspace: Workspace


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        tables = SQLModel.metadata.tables
        wanted = [tables[str(model.__tablename__)] for model in (Workspace, Project, Port)]
        SQLModel.metadata.create_all(connection, tables=wanted)
        owned = {"user_id": 1, "immutable": False, "archived": False}
        connection.execute(insert(Workspace), [{"id": 7, "name": "w", **owned}])
        connection.execute(
            insert(Project),
            [{"id": id_, "workspace_id": 7, "name": f"p{id_}", **owned} for id_ in (1, 2)],
        )
        yield connection
    engine.dispose()


def test_a_selected_table_gives_objects_of_its_class(connection: Connection) -> None:
    first, second = fetch(connection, select(Project).order_by(Project.id))
    assert isinstance(first, Project)
    assert (first.id, first.name, first.workspace_id, first.archived) == (1, "p1", 7, False)
    assert second.model_dump()["name"] == "p2"
    assert first != second
    assert first == fetch(connection, select(Project).where(Project.id == 1))[0]


def test_a_row_that_was_read_is_not_changed(connection: Connection) -> None:
    (row,) = fetch(connection, select(Workspace))
    with pytest.raises(AttributeError, match="commit a unit of work"):
        row.name = "other"
    assert row.name == "w"


def test_a_selected_column_gives_values(connection: Connection) -> None:
    assert fetch(connection, select(Project.name).order_by(Project.id.desc())) == ["p2", "p1"]
    assert fetch(connection, select(func.max(Project.id))) == [2]
    assert fetch(connection, select(func.max(Port.port))) == [None]


def test_several_things_become_a_named_row(connection: Connection) -> None:
    rows = fetch(
        connection,
        select(Project, func.length(Project.name), Workspace)
        .join(Workspace, Workspace.id == Project.workspace_id)
        .where(Project.id.in_([2])),
        Placed,
    )
    assert [(r.project.id, r.number, r.workspace.name) for r in rows] == [(2, 2, "w")]


def test_several_things_need_a_class(connection: Connection) -> None:
    with pytest.raises(TypeError, match="2 things are selected"):
        fetch(connection, select(Project.id, Project.name))  # type: ignore[arg-type]


def test_a_column_that_its_table_brings_already_is_refused(connection: Connection) -> None:
    """SQLAlchemy leaves it out of the table's, and the values would move up."""
    twice = select(Workspace.name, Workspace, Project.id).join(
        Project, Project.workspace_id == Workspace.id
    )
    with pytest.raises(TypeError, match="is one selected twice"):
        fetch(connection, twice, lambda name, workspace, id_: (name, workspace, id_))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("select(Project.nmae)", '"type[Project]" has no attribute "nmae"'),
        ("fetch(c, select(Project))[0].nmae", '"Project" has no attribute "nmae"'),
        ("fetch(c, select(Project))[0].id.lower()", '"int" has no attribute "lower"'),
        ("fetch(c, select(Project.id))[0].lower()", '"int" has no attribute "lower"'),
    ],
)
def test_type_checkers_know_columns(wrong: str, told: str, tmp_path: Path) -> None:
    program = tmp_path / "wrong.py"
    program.write_text(
        "from sqlalchemy import Connection, select\n"
        "from master.store.sql.rows import fetch\n"
        "from master.store.tables import Project\n"
        f"def f(c: Connection) -> None:\n    {wrong}\n"
    )
    arguments = [sys.executable, "-m", "mypy", "--no-error-summary", str(program)]
    checked = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told in checked.stdout
