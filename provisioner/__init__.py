"""From pending demand to machines: plan, write the intent, act, look again."""
