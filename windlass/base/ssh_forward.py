"""The `ssh -L` line that brings a port of another machine to the user's own."""

from __future__ import annotations

import re


def ssh_line(url_host: str, port: int, *, user: str, host: str, login: str) -> str:
    """Forwards the same port of the user's computer to the master. `login`: how that computer calls the login node."""
    at = f"[{url_host}]" if ":" in url_host else url_host
    name, _, ssh_port = login.rpartition(":") if re.search(r":\d+$", login) else (login, "", "")
    option = f"-p {ssh_port} " if ssh_port else ""
    return f"ssh -N -L {port}:{at}:{port} {option}{name or f'{user}@{host}'}"
