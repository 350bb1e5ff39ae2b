"""A process that matches lines for `master.logs.regex_filter`. Standard library only; started by path.

It reads a JSON list [pattern, lines...] per line and answers with a list of 0 and 1.
"""

import json
import re
import sys


def main() -> None:
    for request in sys.stdin:
        pattern, *lines = json.loads(request)
        search = re.compile(pattern).search
        sys.stdout.write(json.dumps([1 if search(line) else 0 for line in lines]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
