"""`docs/reference/` is what the code says."""

from __future__ import annotations

import pytest

from tools.reference.__main__ import FOLDER, pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text() == PAGES[name], "stale: run `make docs`"


def test_there_are_no_other_pages() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(PAGES)


def test_a_page_tells_types_defaults_meanings_and_marks() -> None:
    experiment, master = PAGES["experiment.md"], PAGES["master.md"]
    assert (
        "| `max_restarts` | integer >= 0 | `5` | Failed runs of each trial that are retried. |"
        in experiment
    )
    assert "**No effect**: " in experiment
    assert "## `resource_pools.budget`" in master


def test_commands_and_errors_are_there() -> None:
    assert "### `det experiment create CONFIG_FILE [MODEL_DIR]`" in PAGES["commands.md"]
    assert "### `det master run`" in PAGES["commands.md"]
    assert "| `not_found` | 404 | NotFound | There is no such thing. |" in PAGES["errors.md"]
