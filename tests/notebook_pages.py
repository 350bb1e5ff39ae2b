"""What a browser shows at the URL of a notebook."""

from __future__ import annotations

import httpx2

from tests.real_cluster import PATIENCE_S
from windlass.base.tls.trust import Trust

OF_JUPYTERLAB = 'id="jupyter-config-data"'
"""Is in its page, and in none of the master's."""


def page_at(url: str, certificate: str) -> str:
    """`url`: with its token; `certificate`: of the master (PEM)."""
    trust = Trust(pem=certificate, alone=True).context()
    with httpx2.Client(
        verify=trust, trust_env=False, follow_redirects=True, timeout=PATIENCE_S
    ) as browser:
        return browser.get(url).raise_for_status().text
