"""The script of a job, one for Slurm and PBS: a host with an agent on every node, and nothing left behind. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from agent_bootstrap.shell import MODULES
from provisioner.batch.base import SCRIPT_NAME

NEEDED = "Python 3.11"


TOLD_NAME = "told-to-end"
"""When PBS told a job to end (SIGTERM), in seconds since the epoch: a site without history cannot say it later."""
BEGIN_NAME = "begin.sh"
"""Of what each node runs before its agent, in the directory of its job."""
PROLOGUE_FAILED = "job_prologue ended with exit code"


def job_script(
    directory: Path,
    python: str,
    *,
    nodes: int,
    path: str = "",
    libraries: str = "",
    has_prologue: bool = False,
    of_array: bool = False,
) -> str:
    """`path`, `libraries`: folders before those that jobs find commands and libraries in. `of_array`: as in `JobSpec`.

    `has_prologue`: each node runs `begin_script`, from `BEGIN_NAME`, instead of the agent.

    It waits for all nodes; the first that fails ends the others. A node that does not see the directory ends it: newer
    releases of Slurm run a job without a place for its log all the same.

    srun gives each node its number and ends the others. PBS has pbs_tmrsh, which starts one program on one node; its
    commands are not in the PATH of a job, and what is left of a job when the script ends is ended by PBS. Its script
    tells its own end (USR1) from one that PBS asked for.
    """
    where = shlex.quote(str(directory)) + ('."$SLURM_ARRAY_TASK_ID"' if of_array else "")
    host = f"exec {_host(python)} {where}/nodes"
    if has_prologue:
        host = f"exec bash {where}/{BEGIN_NAME} {where}/nodes"
    cpus = "${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK}"
    on_slurm = shlex.quote(host + '/"$SLURM_NODEID"')
    # What a site signals before it takes nodes away, it signals to steps only: without one nothing ends too early.
    alone = shlex.quote(f"{host}/0")
    on_slurm_nodes = f"""srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --kill-on-bad-exit=1 {cpus} \\
    /bin/sh -c {on_slurm}"""
    run = f"/bin/sh -c {alone}" if nodes == 1 else on_slurm_nodes
    on_pbs = shlex.quote(host + '/"$1"')
    folders = _before("PATH", path) + _before("LD_LIBRARY_PATH", libraries)
    return f"""#!/bin/sh
{folders}cd {where} && [ -e {SCRIPT_NAME} ] || {{ echo "this node does not see "{where} >&2; exit 1; }}
{"" if has_prologue else _python_check(python)}if [ -n "$SLURM_JOB_ID" ]; then
  exec {run}
fi
PATH="$PATH:$(sed -n 's/^PBS_EXEC=//p' "${{PBS_CONF_FILE:-/etc/pbs.conf}}" 2>/dev/null)/bin:/opt/pbs/bin"
end() {{ trap "" TERM USR1; kill -TERM 0; wait; exit 1; }}
trap 'date +%s > {TOLD_NAME}; end' TERM
trap end USR1
number=0
for node in $(awk '!seen[$0]++' "$PBS_NODEFILE"); do
  if [ "$number" = 0 ]; then
    (/bin/sh -c {on_pbs} node 0 || kill -USR1 $$) &
  else
    (pbs_tmrsh "$node" /bin/sh -c {on_pbs} node "$number" || kill -USR1 $$) &
  fi
  number=$((number + 1))
done
if [ "$number" != {nodes} ]; then
  echo "PBS gave $number nodes to a job that asked for {nodes}" >&2
  kill -USR1 $$
fi
wait
"""


def begin_script(python: str, prologue: Sequence[str]) -> str:
    """Sourced lines, then the agent, with what they set. Its argument: the directory of the node.

    What they print goes to the log of the job, at their end. If they fail its last line is the reason.
    """
    lines = "\n".join(prologue)
    failed = f"""__windlass_code=$?
exec >&"$__windlass_out" 2>&"$__windlass_err"
cat "$__windlass_log"
__windlass_said=$(tail -n 1 "$__windlass_log")
echo "$(hostname): {PROLOGUE_FAILED} $__windlass_code${{__windlass_said:+: $__windlass_said}}" >&2"""
    return f"""__windlass_node=$1
__windlass_log="$1/prologue.log"
exec {{__windlass_out}}>&1 {{__windlass_err}}>&2 >"$__windlass_log" 2>&1
trap {shlex.quote(failed)} EXIT
set -e
{MODULES}
{lines}
set +e
trap - EXIT
exec >&"$__windlass_out" 2>&"$__windlass_err" {{__windlass_out}}>&- {{__windlass_err}}>&-
cat "$__windlass_log"
{_python_check(python)}exec {_host(python)} "$__windlass_node"
"""


def _host(python: str) -> str:
    return f"{shlex.quote(python)} -P -m agent_bootstrap.host --dir"


def _python_check(python: str) -> str:
    named = shlex.quote(
        f"{python} is no {NEEDED} or newer: set `python` of the provider to one that nodes see"
    )
    return f"""{shlex.quote(python)} -ISc 'import sys; sys.exit(sys.version_info < (3, 11))' || {{
  echo "$(hostname): "{named} >&2
  exit 1
}}
"""


def _before(variable: str, folders: str) -> str:
    if not folders:
        return ""
    return f'export {variable}={shlex.quote(folders)}"${{{variable}:+:${variable}}}"\n'
