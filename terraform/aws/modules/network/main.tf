variable "name" {
  description = "Begins the names"
  type        = string
}

variable "own" {
  description = "Make a network, instead of using the default one"
  type        = bool
}

variable "private" {
  description = "Put master and machines into private subnets"
  type        = bool
}

variable "cidr" {
  description = "Addresses of an own network"
  type        = string
}

variable "subnets" {
  description = "Ranges of its subnets"
  type        = object({ public = list(string), private = list(string) })
}

data "aws_region" "current" {}

data "aws_availability_zones" "there" {
  #checkov:skip=CKV_AWS_394:a new zone moves nothing: the disk keeps its zone
  state = "available"

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

data "aws_vpc" "default" {
  count   = var.own ? 0 : 1
  default = true
}

data "aws_subnets" "default" {
  count = var.own ? 0 : 1

  filter {
    name   = "vpc-id"
    values = [data.aws_vpc.default[0].id]
  }

  filter {
    name   = "default-for-az"
    values = ["true"]
  }
}

data "aws_subnet" "default" {
  for_each = toset(var.own ? [] : data.aws_subnets.default[0].ids)
  id       = each.value
}

locals {
  there     = sort(data.aws_availability_zones.there.names)
  own_zones = var.own ? slice(local.there, 0, min(length(local.there), length(var.subnets.public))) : []
}

resource "aws_vpc" "own" {
  #checkov:skip=CKV2_AWS_11:flow logs cost by the gigabyte
  count                = var.own ? 1 : 0
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

# Nobody uses the group that AWS makes with a network: it lets nothing through.
resource "aws_default_security_group" "own" {
  count  = var.own ? 1 : 0
  vpc_id = aws_vpc.own[0].id
}

resource "aws_internet_gateway" "own" {
  count  = var.own ? 1 : 0
  vpc_id = aws_vpc.own[0].id
  tags   = { Name = var.name }
}

resource "aws_subnet" "public" {
  for_each                = { for index, zone in local.own_zones : zone => var.subnets.public[index] }
  vpc_id                  = aws_vpc.own[0].id
  availability_zone       = each.key
  cidr_block              = each.value
  map_public_ip_on_launch = !var.private
  tags                    = { Name = "${var.name}-public" }
}

resource "aws_subnet" "private" {
  for_each          = { for index, zone in(var.private ? local.own_zones : []) : zone => var.subnets.private[index] }
  vpc_id            = aws_vpc.own[0].id
  availability_zone = each.key
  cidr_block        = each.value
  tags              = { Name = "${var.name}-private" }
}

resource "aws_route_table" "public" {
  count  = var.own ? 1 : 0
  vpc_id = aws_vpc.own[0].id
  tags   = { Name = "${var.name}-public" }

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.own[0].id
  }
}

resource "aws_route_table_association" "public" {
  for_each       = aws_subnet.public
  subnet_id      = each.value.id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_route_table" "private" {
  count  = var.private ? 1 : 0
  vpc_id = aws_vpc.own[0].id
  tags   = { Name = "${var.name}-private" }
}

resource "aws_route_table_association" "private" {
  for_each       = aws_subnet.private
  subnet_id      = each.value.id
  route_table_id = aws_route_table.private[0].id
}

# Checkpoints do not go through the NAT gateway, which costs by the gigabyte.
resource "aws_vpc_endpoint" "s3" {
  count           = var.own ? 1 : 0
  vpc_id          = aws_vpc.own[0].id
  service_name    = "com.amazonaws.${data.aws_region.current.region}.s3"
  route_table_ids = concat(aws_route_table.public[*].id, aws_route_table.private[*].id)
  tags            = { Name = var.name }
}

locals {
  public  = var.own ? { for zone, subnet in aws_subnet.public : zone => subnet.id } : { for subnet in data.aws_subnet.default : subnet.availability_zone => subnet.id }
  private = { for zone, subnet in aws_subnet.private : zone => subnet.id }
}

output "id" {
  description = "The network"
  value       = var.own ? aws_vpc.own[0].id : data.aws_vpc.default[0].id
}

output "zones" {
  description = "Zones with a subnet, in order"
  value       = sort(keys(local.public))
}

output "public_subnets" {
  description = "By zone"
  value       = local.public
}

output "subnets" {
  description = "Of the master and the machines, by zone"
  value       = var.private ? local.private : local.public
}

output "private_route" {
  description = "Route table of the private subnets"
  value       = one(aws_route_table.private[*].id)
}
