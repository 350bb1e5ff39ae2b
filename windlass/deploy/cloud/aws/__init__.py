"""A cluster on AWS: its options, its plan, what is asked of AWS before it is made, and its machines and bucket."""
