variable "name" {
  description = "Begins the names"
  type        = string
}

variable "network" {
  description = "The VPC"
  type        = string
}

variable "inbound_cidr" {
  description = "Who may reach the master"
  type        = string
}

variable "ssh_cidr" {
  description = "Who may log in by SSH; empty: nobody"
  type        = string
}

variable "port" {
  description = "Port of the master"
  type        = number
}

variable "private" {
  description = "Only the bastion reaches master and machines from outside"
  type        = bool
}

locals {
  groups = {
    master   = "The master"
    agent    = "Machines of pools"
    database = "The database"
    files    = "Shared files"
    bastion  = "The bastion"
  }
  # A rule from one group to another: port 0 is everything.
  between = merge(
    {
      master_from_agent   = { to = "master", from = "agent", first = var.port, last = var.port }
      agent_from_master   = { to = "agent", from = "master", first = 0, last = 65535 }
      database_of_master  = { to = "database", from = "master", first = 5432, last = 5432 }
      files_nfs           = { to = "files", from = "agent", first = 2049, last = 2049 }
      files_lustre        = { to = "files", from = "agent", first = 988, last = 988 }
      files_lustre_itself = { to = "files", from = "files", first = 988, last = 988 }
      files_lustre_more   = { to = "files", from = "agent", first = 1018, last = 1023 }
      files_lustre_return = { to = "files", from = "files", first = 1018, last = 1023 }
      agent_lustre        = { to = "agent", from = "files", first = 988, last = 988 }
      agent_lustre_more   = { to = "agent", from = "files", first = 1018, last = 1023 }
    },
    var.private ? {
      master_from_bastion     = { to = "master", from = "bastion", first = var.port, last = var.port }
      master_ssh_from_bastion = { to = "master", from = "bastion", first = 22, last = 22 }
      agent_ssh_from_bastion  = { to = "agent", from = "bastion", first = 22, last = 22 }
    } : {},
  )
  ssh_to = var.ssh_cidr == "" ? [] : var.private ? ["bastion"] : ["master", "agent"]
}

resource "aws_security_group" "all" {
  #checkov:skip=CKV2_AWS_5:other modules and the master attach them
  for_each    = local.groups
  name        = "${var.name}-${each.key}"
  description = each.value
  vpc_id      = var.network
  tags        = { Name = "${var.name}-${each.key}" }
}

resource "aws_vpc_security_group_ingress_rule" "between" {
  for_each                     = local.between
  description                  = replace(each.key, "_", " ")
  security_group_id            = aws_security_group.all[each.value.to].id
  referenced_security_group_id = aws_security_group.all[each.value.from].id
  ip_protocol                  = "tcp"
  from_port                    = each.value.first
  to_port                      = each.value.last
}

# All traffic: EFA and NCCL choose their own ports and protocols.
resource "aws_vpc_security_group_ingress_rule" "agents" {
  description                  = "Machines of pools among themselves"
  security_group_id            = aws_security_group.all["agent"].id
  referenced_security_group_id = aws_security_group.all["agent"].id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "agents" {
  description                  = "Machines of pools among themselves: EFA needs the group itself"
  security_group_id            = aws_security_group.all["agent"].id
  referenced_security_group_id = aws_security_group.all["agent"].id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_ingress_rule" "master" {
  count             = var.private ? 0 : 1
  description       = "Users"
  security_group_id = aws_security_group.all["master"].id
  cidr_ipv4         = var.inbound_cidr
  ip_protocol       = "tcp"
  from_port         = var.port
  to_port           = var.port
}

resource "aws_vpc_security_group_ingress_rule" "ssh" {
  for_each          = toset(local.ssh_to)
  description       = "SSH"
  security_group_id = aws_security_group.all[each.key].id
  cidr_ipv4         = var.ssh_cidr
  ip_protocol       = "tcp"
  from_port         = 22
  to_port           = 22
}

resource "aws_vpc_security_group_egress_rule" "out" {
  for_each          = toset(["master", "agent", "bastion"])
  description       = "Packages, images and the cloud's services"
  security_group_id = aws_security_group.all[each.key].id
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}

# Lustre's servers call their clients, and each other.
resource "aws_vpc_security_group_egress_rule" "files" {
  for_each                     = toset(["agent", "files"])
  description                  = "Shared files to ${each.key}"
  security_group_id            = aws_security_group.all["files"].id
  referenced_security_group_id = aws_security_group.all[each.key].id
  ip_protocol                  = "tcp"
  from_port                    = 988
  to_port                      = 1023
}

output "master" {
  description = "Group of the master"
  value       = aws_security_group.all["master"].id
}

output "agent" {
  description = "Group of the machines of pools"
  value       = aws_security_group.all["agent"].id
}

output "database" {
  description = "Group of the database"
  value       = aws_security_group.all["database"].id
}

output "files" {
  description = "Group of shared files"
  value       = aws_security_group.all["files"].id
}

output "bastion" {
  description = "Group of the bastion"
  value       = aws_security_group.all["bastion"].id
}
