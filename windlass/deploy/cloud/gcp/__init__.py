"""A cluster on Google Cloud: its options, its plan, what is asked before it is made, and its machines and bucket."""
