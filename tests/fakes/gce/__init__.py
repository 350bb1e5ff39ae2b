"""A small Compute Engine on 127.0.0.1 that the real google-cloud-compute client talks to. Only for tests.

`faults` says what goes wrong, `catalogue` what is sold, `cloud` keeps machines and operations, `launches` checks and
makes them, `server` is the HTTP of it.
"""

from tests.fakes.gce.cloud import Cloud
from tests.fakes.gce.faults import Fault, Which
from tests.fakes.gce.server import FakeGce, fake_gce

__all__ = ["Cloud", "FakeGce", "Fault", "Which", "fake_gce"]
