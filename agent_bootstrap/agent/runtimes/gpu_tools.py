"""An `nvidia-smi` first in a task's PATH that shows only the GPUs of the task.

CUDA_VISIBLE_DEVICES means nothing to the real one, and the published harness counts GPUs with it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from agent_bootstrap.agent.gpus.gpu import Gpu
from agent_bootstrap.protocol import SlotKind

_SCRIPT = """#!/bin/sh
# Shows the GPUs of this task. Calls that name GPUs themselves, and commands like `topo`, are passed on as they are.
gpus={gpus} real= shown=
if [ -z "$gpus" ]; then
  echo "No devices were found"
  exit 6
fi
IFS=:
for folder in $PATH:/usr/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib; do
  if [ -x "$folder/nvidia-smi" ] && ! [ "$folder/nvidia-smi" -ef "$0" ]; then
    real=$folder/nvidia-smi
    break
  fi
done
if [ -z "$real" ]; then
  echo "nvidia-smi is not installed on this machine" >&2
  exit 127
fi
case "$1" in
  -h | --help* | --version | [a-z]*) exec "$real" "$@" ;;
esac
for word; do
  case "$word" in
    -i* | --id | --id=*) exec "$real" "$@" ;;
  esac
done
IFS=,
case "$1" in
  -L | --list-gpus) # takes no -i
    all=$("$real" "$@") || exit
    printf '%s\n' "$all" | while IFS= read -r line; do
      case "$line" in
        GPU*)
          shown=
          for gpu in $gpus; do
            case "$line" in *"$gpu)"*) shown=yes ;; esac
          done ;;
      esac
      [ -z "$shown" ] || printf '%s\n' "$line"
    done
    exit ;;
esac
exec "$real" "-i" "$gpus" "$@"
"""


def write_gpu_tools(folder: Path, offered: Iterable[Gpu], own: Iterable[Gpu]) -> None:
    """`offered`: all that the machine offers. Without NVIDIA GPUs there is nothing to hide."""
    if not any(gpu.kind is SlotKind.CUDA for gpu in offered):
        return
    # nvidia-smi knows slices only as parts of their GPUs.
    names = dict.fromkeys(gpu.whole for gpu in own if gpu.kind is SlotKind.CUDA)
    path = folder / "nvidia-smi"
    path.write_text(_SCRIPT.format(gpus=shlex.quote(",".join(names))))
    path.chmod(0o755)
