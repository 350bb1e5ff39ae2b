# A stack with the modules of ours, of things that need no plug-in. Each writes down when it comes and goes.

variable "cluster_id" {
  type = string
}

variable "region" {
  type = string
}

variable "database" {
  type = string
}

variable "master_instance_type" {
  type = string
}

variable "secrets" {
  type      = string
  default   = "{}"
  ephemeral = true
  sensitive = true
}

variable "secrets_version" {
  type = number
}

variable "delete_data" {
  type    = bool
  default = false
}

module "network" {
  source = "./modules/thing"
  name   = "network"
}

module "bucket" {
  source    = "./modules/thing"
  name      = "bucket"
  protected = !var.delete_data
}

module "secret" {
  source = "./modules/thing"
  name   = "secret"
  more   = "version ${var.secrets_version}"
}

module "database" {
  count     = var.database == "managed" ? 1 : 0
  source    = "./modules/thing"
  name      = "database"
  more      = "version ${var.secrets_version}"
  protected = !var.delete_data

  depends_on = [module.network]
}

module "roles" {
  source = "./modules/thing"
  name   = "roles"

  depends_on = [module.bucket, module.secret]
}

module "address" {
  source = "./modules/thing"
  name   = "address"
}

module "master" {
  source = "./modules/thing"
  name   = "master"
  more   = "${var.master_instance_type} version ${var.secrets_version}"

  depends_on = [module.database, module.roles, module.address, module.network]
}

output "inputs" {
  value = {
    cluster_id           = var.cluster_id
    region               = var.region
    database             = var.database
    master_instance_type = var.master_instance_type
    secrets_version      = var.secrets_version
  }
}

output "master_address" {
  value = "203.0.113.5"
}
