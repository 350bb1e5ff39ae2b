"""Alembic's entry point; the work is in `master.store.migrate`."""

from master.store.migrate import run_environment

run_environment()
