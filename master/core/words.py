"""Names that people can tell apart and say: three words, always the same ones for the same id."""

from __future__ import annotations

import hashlib

_WORDS = (
    "able amber bold brave brief bright brisk calm clean clear crisp deep eager early even fair fast fine "
    "firm fresh gentle glad golden grand green happy hardy keen kind large light lively loyal lucky mellow "
    "merry mild neat noble open pale plain polite prime proud quick quiet rapid ready rich round royal sharp "
    "silver simple smooth soft solid steady sunny swift tidy vivid warm",
    "amply aptly boldly calmly cleanly clearly coolly deeply duly early easily fairly finely firmly freely "
    "freshly fully gently gladly highly jointly justly keenly kindly largely lately lightly lively loosely "
    "mainly mildly mostly neatly newly nicely openly partly plainly poorly promptly purely quickly rarely "
    "readily really richly rightly safely sharply simply slowly smoothly softly solely soundly stably surely "
    "swiftly thinly tightly truly vastly warmly wholly wisely",
    "badger bear beaver bison bream buck camel carp cod condor crab crane crow deer dingo dove duck eagle eel "
    "elk falcon finch fox frog gecko goat goose grouse gull hare hawk heron horse ibex jay kite koala lark "
    "lion llama lynx mole moose mouse newt otter owl panda perch pike puma quail raven robin seal shark sheep "
    "skunk stork swan tapir tiger trout wolf",
)
_LISTS = tuple(tuple(words.split()) for words in _WORDS)


def three_words(of: str) -> str:
    """ "steady-neatly-otter"."""
    digest = hashlib.sha256(of.encode()).digest()
    return "-".join(
        words[byte % len(words)] for words, byte in zip(_LISTS, digest[:3], strict=True)
    )
