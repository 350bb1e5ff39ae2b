"""`det deploy aws` and `det deploy gcp`: a cluster in a cloud, by Terraform.

options       every option of `up` that both clouds have; aws_options, gcp_options: the others
parsing       options as they are typed, with all mistakes at once
template      filling in master.yaml; rendering: with what
master_boot   the script that the master's machine starts with; on_master: what it runs there
policy        the least that a master may do, from the calls that its provider declares
plan          all of that for one cluster; aws_plan, gcp_plan
terraform     running Terraform; progress: what it says, for people
state_folder  variables, state, and how far the last command came
machines      ending the machines of pools; aws_machines, gcp_machines
cluster       `up` and `down`, in order and from half-made states
"""
