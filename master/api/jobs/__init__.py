"""The job queue."""
