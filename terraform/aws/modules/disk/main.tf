# The master's data: it outlives the master's machine.

variable "name" {
  description = "Name of the disk"
  type        = string
}

variable "zone" {
  description = "Where it is made"
  type        = string
}

variable "delete_data" {
  description = "Delete it without a last snapshot"
  type        = bool
}

resource "aws_ebs_volume" "data" {
  #checkov:skip=CKV_AWS_189:a key of one's own costs money and one more permission; AWS's key is used
  availability_zone = var.zone
  size              = 100
  type              = "gp3"
  encrypted         = true
  final_snapshot    = !var.delete_data
  tags              = { Name = "${var.name}-data" }

  lifecycle {
    ignore_changes = [availability_zone] # another order of zones must not make an empty disk
  }
}

output "id" {
  description = "The disk"
  value       = aws_ebs_volume.data.id
}

output "zone" {
  description = "Where it is, and so the master"
  value       = aws_ebs_volume.data.availability_zone
}
