"""Says where it runs, and ends."""

import os

print("ran on", os.environ.get("DET_AGENT_ID", "?"), flush=True)
