"""One contract suite for all batch systems."""
