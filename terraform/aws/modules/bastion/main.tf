variable "name" {
  description = "Begins the names"
  type        = string
}

variable "subnet" {
  description = "A public subnet"
  type        = string
}

variable "group" {
  description = "Security group"
  type        = string
}

variable "keypair" {
  description = "Who may log in"
  type        = string
}

variable "tags" {
  description = "Of disks, which provider's default tags do not reach"
  type        = map(string)
}

data "aws_ssm_parameter" "ubuntu" {
  name = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id"
}

resource "aws_instance" "bastion" {
  #checkov:skip=CKV_AWS_135:t3 machines are optimized for EBS anyhow
  #checkov:skip=CKV_AWS_88:it is the way in
  #checkov:skip=CKV_AWS_126:costs money, and the bastion does nothing
  #checkov:skip=CKV2_AWS_41:it may do nothing in AWS
  ami                         = data.aws_ssm_parameter.ubuntu.insecure_value
  instance_type               = "t3.micro"
  subnet_id                   = var.subnet
  associate_public_ip_address = true
  vpc_security_group_ids      = [var.group]
  key_name                    = var.keypair
  tags                        = { Name = "${var.name}-bastion" }

  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    encrypted = true
    tags      = merge(var.tags, { Name = "${var.name}-bastion" })
  }

  lifecycle {
    ignore_changes = [ami]
  }
}

output "address" {
  description = "Its address"
  value       = aws_instance.bastion.public_ip
}
