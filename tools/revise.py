"""For developers: write the next migration from what changed in the tables.

    python -m tools.revise state "trials remember their node"     (or: logs)

Then read what it wrote. A master of the release before must be able to run on the result: add now, remove later.
"""

from __future__ import annotations

import argparse

from alembic import command
from sqlalchemy import create_engine

from master.logs.tables import LOGS
from master.store.migrate import STATE, config_for, upgrade


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the next migration.")
    parser.add_argument("line", choices=("state", "logs"))
    parser.add_argument("message")
    options = parser.parse_args()
    migrations = STATE if options.line == "state" else LOGS
    with create_engine("sqlite://").begin() as connection:
        upgrade(connection, migrations)
        number = 1 + len(list((migrations.directory / "versions").glob("*.py")))
        command.revision(
            config_for(migrations, connection),
            message=options.message,
            autogenerate=True,
            rev_id=f"{number:04d}",
        )


if __name__ == "__main__":
    main()
