"""Finding anything by its name or id, over REST."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from master.core.visibility import Visibility
from master.name_search import NamedKind, Sight
from tests.fakes.api_population import populate
from tests.fakes.api_world import SINGLE, ApiWorld

URL = "/api/v1/windlass/search"


async def found(world: ApiWorld, text: str, more: str = "") -> list[tuple[str, str]]:
    answer = await world.ok("GET", f"{URL}?q={quote(text)}{more}")
    return [(one["kind"], one["name"]) for one in answer["found"]]


async def test_everything_is_found_by_its_name(world: ApiWorld, tmp_path: Path) -> None:
    known = await populate(world, tmp_path)
    for text, one in (
        ("tin", ("experiment", "tiny")),
        ("VIS", ("project", "vision")),
        ("lab", ("workspace", "lab")),
        ("earing", ("model", "hearing")),
        ("third", ("template", "third")),
        ("determined", ("user", "determined")),
        ("defau", ("pool", "default")),
        ("NODE-2", ("agent", "node-2")),
    ):
        assert one in await found(world, text), text
    notebook = known["notebook"][0]
    (task,) = (await world.ok("GET", f"{URL}?q={notebook[:8]}"))["found"]
    assert (task["kind"], task["id"], task["detail"]) == ("task", notebook, "NOTEBOOK")
    begins = notebook[:4]
    await world.ok("POST", "/api/v1/users", {"user": {"username": begins, "active": True}})
    assert [kind for kind, _ in await found(world, begins)] == ["user", "task"]
    by_id = (await world.ok("GET", f"{URL}?q={known['experiment'][0]}"))["found"]
    assert {"experiment", "trial", "project", "workspace"} <= {one["kind"] for one in by_id}
    assert await found(world, "no such thing") == []
    assert await found(world, " ") == []


async def test_what_fits_best_comes_first_and_the_rest_is_counted(world: ApiWorld) -> None:
    for name in ("my net", "net", "netting", "NET", "100%_net"):
        await world.create(SINGLE.replace("name: tiny", f"name: '{name}'"), activate=False)
    whole, other, begins, *contain = [name for _, name in await found(world, "Net")]
    assert {whole, other} == {"net", "NET"}
    assert (begins, contain) == ("netting", ["100%_net", "my net"])
    assert await found(world, "%_") == [("experiment", "100%_net")]
    assert await found(world, "%") == [("experiment", "100%_net")]
    some = await world.ok("GET", f"{URL}?q=net&limit=2")
    assert (len(some["found"]), some["more"]) == (2, True)
    every = await world.ok("GET", f"{URL}?q=net&limit=5")
    assert (len(every["found"]), every["more"]) == (5, False)


async def test_what_is_in_other_workspaces_is_not_found(world: ApiWorld, tmp_path: Path) -> None:
    known = await populate(world, tmp_path)
    names = world.app.state.api.reads.names
    elsewhere = Visibility(frozenset({99}))
    kinds = ("workspaces", "projects", "experiments", "artifacts", "models", "templates")
    for text in ("i", "1", known["notebook"][0]):
        nothing = Sight(**dict.fromkeys((*kinds, "interactive"), elsewhere))
        assert await names.found(text, nothing, 50) == []
    own = Sight(**dict.fromkeys(kinds, elsewhere), interactive=Visibility())
    assert {one.kind for one in await names.found("", own, 50)} == {NamedKind.TASK}


async def test_a_text_that_is_too_long_is_refused(world: ApiWorld) -> None:
    await world.refused(400, "GET", f"{URL}?q={'x' * 201}")
    await world.refused(400, "GET", f"{URL}?q=x&limit=101")
