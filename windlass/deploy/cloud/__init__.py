"""`det deploy aws` and `det deploy gcp`: a cluster in a cloud, by Terraform.

aws, gcp      what differs: further options, plan, questions before the start, machines, bucket
options       every option of `up` that both clouds have
parsing       options as they are typed, with all mistakes at once
template      filling in master.yaml; rendering: with what
master_boot   the script that the master's machine starts with; on_master: what it runs there
tables        what the servers' code knows: calls that a provider makes, types of machines, quotas
plan          all of that for one cluster
terraform     running Terraform; progress: what it says, for people
state_folder  variables, state, and how far the last command came
machines      ending the machines of pools
cluster       `up` and `down`, in order and from half-made states
"""
