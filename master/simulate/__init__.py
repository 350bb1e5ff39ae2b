"""`windlass simulate`: a master.yaml and a trace of jobs become the input of the simulator, and its answer a report."""
