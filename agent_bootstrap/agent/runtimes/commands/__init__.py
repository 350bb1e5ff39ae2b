"""Images by command line, where there is no engine: Apptainer, Singularity, Enroot."""
