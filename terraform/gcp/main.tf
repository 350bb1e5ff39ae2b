locals {
  name = "det-${var.cluster_id}"
}

module "network" {
  source     = "./modules/network"
  name       = var.network
  region     = var.region
  has_peered = var.database == "managed" || var.filestore
}

module "firewall" {
  source       = "./modules/firewall"
  name         = local.name
  network      = module.network.name
  master_tag   = "det-master-${var.cluster_id}"
  agent_tag    = "det-agent-${var.cluster_id}"
  inbound_cidr = var.inbound_cidr
  ssh_cidr     = var.ssh_cidr
  port         = var.port
}

module "bucket" {
  source      = "./modules/bucket"
  name        = "${local.name}-${var.project_id}"
  region      = var.region
  delete_data = var.delete_data
}

module "secret" {
  source          = "./modules/secret"
  name            = local.name
  secrets         = var.secrets
  secrets_version = var.secrets_version
}

module "database" {
  count            = var.database == "managed" ? 1 : 0
  source           = "./modules/database"
  name             = local.name
  region           = var.region
  network          = module.network.id
  labels           = var.labels
  password         = try(jsondecode(var.secrets)["config"]["db"]["password"], "")
  password_version = var.secrets_version
  delete_data      = var.delete_data

  depends_on = [module.network]
}

module "files" {
  count   = var.filestore ? 1 : 0
  source  = "./modules/files"
  name    = local.name
  zone    = var.zone
  network = module.network.name
}

module "disk" {
  source = "./modules/disk"
  name   = local.name
  zone   = var.zone
}

module "accounts" {
  source             = "./modules/accounts"
  name               = local.name
  project_id         = var.project_id
  bucket             = module.bucket.name
  secret             = module.secret.id
  master_permissions = var.master_permissions
}

module "address" {
  source = "./modules/address"
  name   = local.name
  region = var.region
}

module "boot" {
  source   = "./modules/boot"
  template = var.master_boot

  values = {
    agent_service_account = module.accounts.agent
    bucket                = module.bucket.name
    database_host         = one(module.database[*].host)
    files_host            = one(module.files[*].host)
    master_address        = module.address.ip
    network               = module.network.name
    secret                = module.secret.id
    secrets_version       = tostring(var.secrets_version)
    subnetwork            = module.network.subnetwork
  }
}

module "master" {
  source           = "./modules/master"
  name             = "det-master-${var.cluster_id}"
  zone             = var.zone
  instance_type    = var.master_instance_type
  min_cpu_platform = var.min_cpu_platform_master
  subnetwork       = module.network.subnetwork
  account          = module.accounts.master
  boot             = module.boot.script
  disk             = module.disk.id
  address          = module.address.ip
  labels           = var.labels

  depends_on = [module.database, module.files, module.accounts]
}
