"""Agents on other machines, over SSH: `windlass agent install` and `uninstall`. Needs the extra `ssh`."""
