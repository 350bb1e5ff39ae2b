"""The control plane: one asyncio process that schedules experiments and brings up what they need."""
