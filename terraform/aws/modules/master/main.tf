variable "name" {
  description = "Begins the names"
  type        = string
}

variable "instance_type" {
  description = "Machine"
  type        = string
}

variable "subnet" {
  description = "In the zone of the disk"
  type        = string
}

variable "zone" {
  description = "Of the disk, and so of the subnet"
  type        = string
}

variable "sold" {
  description = "Zones in which the type is sold"
  type        = list(string)
}

variable "group" {
  description = "Security group"
  type        = string
}

variable "profile" {
  description = "Instance profile"
  type        = string
}

variable "keypair" {
  description = "Empty: none"
  type        = string
}

variable "boot" {
  description = "Script that the machine starts with"
  type        = string
}

variable "disk" {
  description = "The data"
  type        = string
}

variable "address" {
  description = "Allocation of its address; null: none"
  type        = string
}

variable "tags" {
  description = "Of disks, which provider's default tags do not reach"
  type        = map(string)
}

data "aws_ec2_instance_type" "master" {
  instance_type = var.instance_type
}

data "aws_ssm_parameter" "ubuntu" {
  name = "/aws/service/canonical/ubuntu/server/24.04/stable/current/${contains(data.aws_ec2_instance_type.master.supported_architectures, "arm64") ? "arm64" : "amd64"}/hvm/ebs-gp3/ami-id"
}

resource "aws_instance" "master" {
  #checkov:skip=CKV_AWS_135:refused by types that have it anyhow
  #checkov:skip=CKV_AWS_126:costs money; the master has metrics of its own
  ami                         = data.aws_ssm_parameter.ubuntu.insecure_value
  instance_type               = var.instance_type
  subnet_id                   = var.subnet
  vpc_security_group_ids      = [var.group]
  iam_instance_profile        = var.profile
  key_name                    = var.keypair == "" ? null : var.keypair
  user_data                   = var.boot
  user_data_replace_on_change = true # the data is on a disk of its own
  tags                        = { Name = "${var.name}-master" }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_size = 50
    volume_type = "gp3"
    encrypted   = true
    tags        = merge(var.tags, { Name = "${var.name}-master" })
  }

  lifecycle {
    ignore_changes = [ami] # a new image must not replace a master that works

    precondition {
      condition     = contains(var.sold, var.zone)
      error_message = "${var.zone}, where the master's disk is, has no ${var.instance_type}: choose another --master-instance-type."
    }
  }
}

resource "aws_volume_attachment" "data" {
  device_name                    = "/dev/sdf"
  volume_id                      = var.disk
  instance_id                    = aws_instance.master.id
  stop_instance_before_detaching = true
}

resource "aws_eip_association" "master" {
  count         = var.address == null ? 0 : 1
  allocation_id = var.address
  instance_id   = aws_instance.master.id
}

output "id" {
  description = "The instance"
  value       = aws_instance.master.id
}

output "private_ip" {
  description = "Its address in the network"
  value       = aws_instance.master.private_ip
}
