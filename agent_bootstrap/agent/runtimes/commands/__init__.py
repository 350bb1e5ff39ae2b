"""Images by command line, where there is no engine: Apptainer, Singularity, Enroot, Podman without a service.

Images are converted once for all machines that share a file system (`cache`).
"""
