"""Webhooks, stored: kept by users, called by a queue that outlives the master."""
