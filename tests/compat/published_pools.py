"""Run by the published client's Python: prints the pools of the master as that client reads them."""

from __future__ import annotations

import json
import os

from determined.common.api import bindings
from determined.experimental import Determined

master = Determined(user=os.environ["DET_USER"], password=os.environ["DET_PASS"])
pools = bindings.get_GetResourcePools(master._session).resourcePools or ()
print(
    json.dumps(
        {
            pool.name: {
                "image": pool.imageId,
                "type": pool.instanceType,
                "spot": bool(
                    (pool.details.aws and pool.details.aws.spotEnabled)
                    or (pool.details.gcp and pool.details.gcp.preemptible)
                ),
                "clouds": [name for name in ("aws", "gcp") if getattr(pool.details, name)],
            }
            for pool in pools
        }
    )
)
