"""REST: parse, authorise, call one service method, shape the answer. Nothing else."""
