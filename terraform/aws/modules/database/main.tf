variable "name" {
  description = "Name of the database's machine"
  type        = string
}

variable "subnets" {
  description = "Its subnets; empty: those of the default VPC"
  type        = list(string)
}

variable "group" {
  description = "Its security group"
  type        = string
}

variable "instance_type" {
  description = "Class of RDS"
  type        = string
}

variable "size" {
  description = "Disk, in GB"
  type        = number
}

variable "snapshot" {
  description = "Snapshot that it is made from; empty: a new one"
  type        = string
}

variable "password" {
  description = "Never kept"
  type        = string
  ephemeral   = true
  sensitive   = true
}

variable "password_version" {
  description = "Raised when the password is to be written"
  type        = number
}

variable "delete_data" {
  description = "Delete it without a last snapshot"
  type        = bool
}

resource "aws_db_subnet_group" "own" {
  count      = length(var.subnets) > 0 ? 1 : 0
  name       = lower(var.name)
  subnet_ids = var.subnets
}

resource "aws_db_instance" "master" {
  #checkov:skip=CKV_AWS_293:on unless delete_data says otherwise
  #checkov:skip=CKV_AWS_157:doubles the price; a restore loses little
  #checkov:skip=CKV_AWS_353:not every class has it
  #checkov:skip=CKV_AWS_118:costs money and needs one more role
  #checkov:skip=CKV_AWS_161:the master logs in by password
  #checkov:skip=CKV2_AWS_30:statements hold data of users
  identifier                      = lower(var.name)
  engine                          = "postgres"
  engine_version                  = "16"
  instance_class                  = var.instance_type
  allocated_storage               = var.size
  storage_type                    = "gp3"
  storage_encrypted               = true
  db_name                         = var.snapshot == "" ? "determined" : null
  username                        = var.snapshot == "" ? "determined" : null
  password_wo                     = var.password
  password_wo_version             = var.password_version
  snapshot_identifier             = var.snapshot == "" ? null : var.snapshot
  db_subnet_group_name            = one(aws_db_subnet_group.own[*].name)
  vpc_security_group_ids          = [var.group]
  publicly_accessible             = false
  backup_retention_period         = 7
  copy_tags_to_snapshot           = true
  deletion_protection             = !var.delete_data
  skip_final_snapshot             = var.delete_data
  final_snapshot_identifier       = "${lower(var.name)}-last"
  apply_immediately               = true
  auto_minor_version_upgrade      = true
  enabled_cloudwatch_logs_exports = ["postgresql", "upgrade"]

  lifecycle {
    ignore_changes = [snapshot_identifier] # it was for the beginning only
  }
}

output "host" {
  description = "Host of the database"
  value       = aws_db_instance.master.address
}
