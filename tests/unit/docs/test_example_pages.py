"""Pages that show a file of an example show exactly that file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHOWN = [
    ("training-frameworks.md", "pytorch_trial/model_def.py"),
    ("training-frameworks.md", "pytorch_trial/search.yaml"),
    ("training-frameworks.md", "huggingface/train.py"),
    ("training-frameworks.md", "lightning/train.py"),
    ("training-frameworks.md", "keras/train.py"),
]
_BLOCK = re.compile(r"^```(?:python|yaml)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("page", "file"), SHOWN)
def test_the_page_shows_the_file_of_the_example(page: str, file: str) -> None:
    blocks = _BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert (ROOT / "examples" / file).read_text(encoding="utf-8") in blocks
