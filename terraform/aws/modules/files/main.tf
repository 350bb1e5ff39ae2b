variable "name" {
  description = "Begins the names"
  type        = string
}

variable "region" {
  description = "Region that everything is in"
  type        = string
}

variable "kind" {
  description = "efs or fsx"
  type        = string
}

variable "given" {
  description = "An existing file system; empty: a new one"
  type        = string
}

variable "given_mount_name" {
  description = "Of an existing FSx: Terraform's plug-in cannot look for it"
  type        = string
}

variable "subnets" {
  description = "By zone"
  type        = map(string)
}

variable "group" {
  description = "Security group"
  type        = string
}

locals {
  new_efs = var.kind == "efs" && var.given == ""
  new_fsx = var.kind == "fsx" && var.given == ""
}

resource "aws_efs_file_system" "files" {
  #checkov:skip=CKV_AWS_184:a key of one's own costs money and one more permission; AWS's key is used
  count     = local.new_efs ? 1 : 0
  encrypted = true
  tags      = { Name = var.name }
}

resource "aws_efs_mount_target" "files" {
  for_each        = local.new_efs ? var.subnets : {}
  file_system_id  = aws_efs_file_system.files[0].id
  subnet_id       = each.value
  security_groups = [var.group]
}

resource "aws_fsx_lustre_file_system" "files" {
  #checkov:skip=CKV_AWS_190:a key of one's own costs money and one more permission; AWS's key is used
  count                       = local.new_fsx ? 1 : 0
  storage_capacity            = 1200
  deployment_type             = "PERSISTENT_2"
  per_unit_storage_throughput = 125
  subnet_ids                  = [values(var.subnets)[0]]
  security_group_ids          = [var.group]
  tags                        = { Name = var.name }
}

output "host" {
  description = "Where it is mounted from"
  value = (
    local.new_fsx
    ? one(aws_fsx_lustre_file_system.files[*].dns_name)
    : "${local.new_efs ? aws_efs_file_system.files[0].id : var.given}.${var.kind}.${var.region}.amazonaws.com"
  )

  depends_on = [aws_efs_mount_target.files]
}

output "mount_name" {
  description = "Of FSx"
  value       = local.new_fsx ? one(aws_fsx_lustre_file_system.files[*].mount_name) : var.given_mount_name
}
