"""Instance types that the master would refuse when it starts: refused before anything is made."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from windlass.base.errors import InvalidConfig
from windlass.base.instance_types import why_unusable
from windlass.deploy.cloud.aws_options import AwsOptions
from windlass.deploy.cloud.server_tables import loaded


def checked_types(options: AwsOptions) -> AwsOptions:
    """Raises InvalidConfig. Not asked where the master's own packages are not installed."""
    try:
        known = frozenset(loaded("machine_types", "aws")("aws"))
    except ImportError:
        return options
    if problems := list(_unknown(options, known)):
        raise InvalidConfig(problems, what="options of det deploy aws up")
    return options


def _unknown(options: AwsOptions, known: frozenset[str]) -> Iterator[str]:
    aux, compute = options.aux_agent_instance_type, options.compute_agent_instance_type
    says_slots = options.compute_agent_slots is not None
    if why := why_unusable(aux, says_slots=False):
        yield f"--aux-agent-instance-type: {why}"
    elif aux not in known:
        yield f"--aux-agent-instance-type: the master does not know {aux}{_near(aux, known)}"
    if why := why_unusable(compute, says_slots=says_slots):
        yield f"--compute-agent-instance-type: {why}"
    elif compute not in known and not says_slots:
        yield (
            f"--compute-agent-instance-type: the master does not know {compute}{_near(compute, known)}; if AWS has it, "
            "give its GPUs with --compute-agent-slots"
        )


def _near(name: str, known: frozenset[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f": did you mean {near[0]}?" if near else ": choose another type"
