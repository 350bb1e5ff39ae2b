"""What pages follow are topics that the master knows."""

from __future__ import annotations

import re

import pytest

from master.live.topics import TOPICS, Names
from master.webui.assets import read_assets

ASSETS = read_assets()
PAGES = [name for name in ASSETS.files if name.startswith(("js/pages/", "js/rights"))]
CALL = re.compile(r"\buse(?:Live|Windows)\(\s*[`\"]([^`\"]*)[`\"]")
BY_A_VALUE = {
    ("js/pages/token_table.js", "${topic}"): ("user ${userId}", "me", "logins"),
    ("js/pages/checkpoints.js", "${kind} ${id}"): ("experiment ${id}", "trial ${id}"),
    ("js/pages/events.js", "${kind} ${id}"): ("experiment ${id}", "trial ${id}"),
    ("js/pages/metrics.js", "${topic}"): ("trial ${id}", "trials ${id}", "me"),
}
"""Topics that follow from a value, by page."""


def asked() -> list[tuple[str, str]]:
    """Each page with each topic that it follows; a value stands in `${...}`."""
    found = []
    for page in PAGES:
        text = ASSETS.files[page].content.decode()
        calls = CALL.findall(text)
        assert len(calls) == len(re.findall(r"\buse(?:Live|Windows)\(", text)), (
            f"{page}: give useLive and useWindows their topic as a text at the place"
        )
        for call in calls:
            named = call.partition(":")[0]
            names = BY_A_VALUE.get((page, named), (named,))
            found += [(page, one) for name in names for one in name.split(" + ")]
    return found


@pytest.mark.parametrize(("page", "topic"), sorted(set(asked())))
def test_each_topic_of_a_page_is_one_of_the_master(page: str, topic: str) -> None:
    name, _, id_ = topic.partition(" ")
    assert name in TOPICS, (
        f"{page} follows {topic!r}: begin it with one of {', '.join(TOPICS)} (master/live/topics.py), and write "
        "what else it depends on after a colon"
    )
    if TOPICS[name].names is Names.NOTHING or name == "me":
        assert id_ == "", f"{page}: {name} takes no id: write a colon before {id_!r}"
    else:
        assert re.fullmatch(r"\$\{.*\}", id_), f"{page}: {name} needs the id of one"


def test_every_topic_is_followed_by_a_page() -> None:
    assert {topic.partition(" ")[0] for _, topic in asked()} == set(TOPICS)
