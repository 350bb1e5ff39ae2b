variable "name" {
  description = "Begins the names"
  type        = string
}

variable "subnet" {
  description = "A public subnet"
  type        = string
}

variable "private_route" {
  description = "Route table of the private subnets"
  type        = string
}

resource "aws_eip" "nat" {
  domain = "vpc"
  tags   = { Name = "${var.name}-nat" }
}

resource "aws_nat_gateway" "nat" {
  allocation_id = aws_eip.nat.id
  subnet_id     = var.subnet
  tags          = { Name = var.name }
}

resource "aws_route" "out" {
  route_table_id         = var.private_route
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.nat.id
}
