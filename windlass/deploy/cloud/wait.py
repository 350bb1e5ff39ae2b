"""Waiting until the master of a new machine answers."""

from __future__ import annotations

import time

import httpx2

from windlass.base.errors import ProviderError

PATIENCE_S = 900.0
PAUSE_S = 5.0


def wait_for_master(url: str, *, patience_s: float = PATIENCE_S, pause_s: float = PAUSE_S) -> None:
    """Its certificate is not looked at: nothing is sent and nothing of the answer is used."""
    until = time.monotonic() + patience_s
    with httpx2.Client(verify=False, timeout=10, trust_env=False) as client:
        while time.monotonic() < until:
            try:
                if client.get(f"{url}/api/v1/master").is_success:
                    return
            except httpx2.HTTPError:
                pass
            time.sleep(pause_s)
    raise ProviderError(
        f"Cannot connect to master at {url} after {patience_s:.0f} s: look at the console output of its machine "
        "(docs: deploy), or run up again; --no-wait-for-master does not wait"
    )
