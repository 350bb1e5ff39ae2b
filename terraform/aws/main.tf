data "aws_caller_identity" "current" {}

data "aws_ec2_instance_type_offerings" "master" {
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [var.master_instance_type]
  }
}

module "names" {
  source     = "./modules/names"
  cluster_id = var.cluster_id
  region     = var.region
  account_id = data.aws_caller_identity.current.account_id
}

module "network" {
  source  = "./modules/network"
  name    = module.names.prefix
  own     = var.own_network
  private = var.private
  cidr    = module.names.network
  subnets = module.names.subnets
}

module "zones" {
  source        = "./modules/zones"
  zones         = module.network.zones
  sold          = data.aws_ec2_instance_type_offerings.master.locations
  instance_type = var.master_instance_type
}

# Apart from the network, because it costs money while the rest of the network does not.
module "nat" {
  count         = var.private ? 1 : 0
  source        = "./modules/nat"
  name          = module.names.prefix
  subnet        = module.network.public_subnets[module.disk.zone]
  private_route = module.network.private_route
}

module "groups" {
  source       = "./modules/groups"
  name         = module.names.prefix
  network      = module.network.id
  inbound_cidr = var.inbound_cidr
  ssh_cidr     = var.ssh_cidr
  port         = var.port
  private      = var.private
}

module "bucket" {
  source      = "./modules/bucket"
  name        = module.names.bucket
  delete_data = var.delete_data
}

module "secret" {
  source          = "./modules/secret"
  name            = module.names.prefix
  secrets         = var.secrets
  secrets_version = var.secrets_version
  delete_data     = var.delete_data
}

module "database" {
  count            = var.database == "managed" ? 1 : 0
  source           = "./modules/database"
  name             = module.names.prefix
  subnets          = var.own_network ? values(module.network.subnets) : []
  group            = module.groups.database
  instance_type    = var.db_instance_type
  size             = var.db_size
  snapshot         = var.db_snapshot
  password         = try(jsondecode(var.secrets)["config"]["db"]["password"], "")
  password_version = var.secrets_version
  delete_data      = var.delete_data
}

module "files" {
  count            = var.files == "none" ? 0 : 1
  source           = "./modules/files"
  name             = module.names.prefix
  region           = var.region
  kind             = var.files
  given            = var.files_id
  given_mount_name = var.files_mount_name
  subnets          = module.network.subnets
  group            = module.groups.files
}

module "disk" {
  source      = "./modules/disk"
  name        = module.names.prefix
  zone        = module.zones.master
  delete_data = var.delete_data
}

module "roles" {
  source        = "./modules/roles"
  name          = module.names.prefix
  bucket        = module.bucket.arn
  secret        = module.secret.arn
  master_policy = var.master_policy
}

module "address" {
  count  = var.private ? 0 : 1
  source = "./modules/address"
  name   = module.names.prefix
}

module "boot" {
  source   = "./modules/boot"
  template = var.master_boot

  values = {
    agent_instance_profile = module.roles.agent_profile
    agent_security_group   = module.groups.agent
    agent_subnets          = jsonencode(var.own_network ? values(module.network.subnets) : var.agent_subnet_ids)
    bucket                 = module.bucket.name
    data_disk              = replace(module.disk.id, "-", "")
    database_host          = one(module.database[*].host)
    files_host             = one(module.files[*].host)
    files_mount_name       = one(module.files[*].mount_name)
    master_address         = var.private ? "localhost" : module.address[0].ip
    secret                 = module.secret.arn
    secrets_version        = tostring(var.secrets_version)
  }
}

module "master" {
  source        = "./modules/master"
  name          = module.names.prefix
  instance_type = var.master_instance_type
  subnet        = module.network.subnets[module.disk.zone]
  zone          = module.disk.zone
  sold          = data.aws_ec2_instance_type_offerings.master.locations
  group         = module.groups.master
  profile       = module.roles.master_profile
  keypair       = var.keypair
  boot          = module.boot.script
  disk          = module.disk.id
  address       = one(module.address[*].allocation)
  tags          = var.tags

  depends_on = [module.database, module.files, module.nat, module.roles]
}

module "bastion" {
  count   = var.private ? 1 : 0
  source  = "./modules/bastion"
  name    = module.names.prefix
  subnet  = module.network.public_subnets[module.disk.zone]
  group   = module.groups.bastion
  keypair = var.keypair
  tags    = var.tags
}
