variable "name" {
  description = "Name of the address"
  type        = string
}

resource "aws_eip" "master" {
  #checkov:skip=CKV2_AWS_19:module master associates it
  domain = "vpc"
  tags   = { Name = "${var.name}-master" }
}

output "ip" {
  description = "The address"
  value       = aws_eip.master.public_ip
}

output "allocation" {
  description = "Its id"
  value       = aws_eip.master.id
}
