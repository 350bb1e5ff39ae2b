"""What `det deploy` does, by where the cluster is.

`local` starts processes of this machine, `cloud` runs Terraform; options and output are in `windlass.cli.deploy`.
"""
