"""Metric reports, and streams of them."""
