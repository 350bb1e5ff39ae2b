output "inputs" {
  description = "What it was made with, for a later `down` or `up` from another machine; no secret"
  value = {
    cluster_id           = var.cluster_id
    region               = var.region
    profile              = var.profile
    tags                 = var.tags
    own_network          = var.own_network
    private              = var.private
    files                = var.files
    files_id             = var.files_id
    files_mount_name     = var.files_mount_name
    agent_subnet_ids     = var.agent_subnet_ids
    inbound_cidr         = var.inbound_cidr
    ssh_cidr             = var.ssh_cidr
    port                 = var.port
    keypair              = var.keypair
    master_instance_type = var.master_instance_type
    master_boot          = var.master_boot
    master_policy        = var.master_policy
    database             = var.database
    db_instance_type     = var.db_instance_type
    db_size              = var.db_size
    db_snapshot          = var.db_snapshot
    secrets_version      = var.secrets_version
  }
}

output "master_address" {
  description = "Where the master is reached; in the private variant from the bastion"
  value       = var.private ? module.master.private_ip : module.address[0].ip
}

output "master_id" {
  description = "Instance of the master"
  value       = module.master.id
}

output "bastion_address" {
  description = "The bastion of the private variant"
  value       = one(module.bastion[*].address)
}

output "bucket" {
  description = "Bucket of checkpoints"
  value       = module.bucket.name
}

output "secret" {
  description = "Where the passwords are"
  value       = module.secret.arn
}
