"""Starts the ranks of this node, as torch's launcher does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path.cwd()))
from recorder import option, record, run_all, with_variables


def main() -> int:
    record()
    size, here, node = option("--nnodes"), option("--nproc_per_node"), option("--node_rank")
    names = {"RANK": node, "WORLD_SIZE": size, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": here}
    names |= {"GROUP_RANK": node, "GROUP_WORLD_SIZE": size}
    module = sys.argv[sys.argv.index("--module") + 1 :]
    while module[0].startswith("-"):
        module.pop(0)
    return run_all([with_variables(names, ["python3", "-m", *module])])


if __name__ == "__main__":
    sys.exit(main())
