output "inputs" {
  description = "What it was made with, for a later `down` or `up` from another machine; no secret"
  value = {
    cluster_id              = var.cluster_id
    project_id              = var.project_id
    region                  = var.region
    zone                    = var.zone
    labels                  = var.labels
    network                 = var.network
    filestore               = var.filestore
    inbound_cidr            = var.inbound_cidr
    ssh_cidr                = var.ssh_cidr
    port                    = var.port
    master_instance_type    = var.master_instance_type
    min_cpu_platform_master = var.min_cpu_platform_master
    master_boot             = var.master_boot
    master_permissions      = var.master_permissions
    database                = var.database
    secrets_version         = var.secrets_version
  }
}

output "master_address" {
  description = "Where the master is reached"
  value       = module.address.ip
}

output "master_id" {
  description = "Instance of the master"
  value       = module.master.name
}

output "bucket" {
  description = "Bucket of checkpoints"
  value       = module.bucket.name
}

output "secret" {
  description = "Where the passwords are"
  value       = module.secret.id
}
