"""The job queue as users see it."""
