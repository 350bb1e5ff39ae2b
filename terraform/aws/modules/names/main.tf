# Names and address ranges. No provider: `terraform test` runs it.

variable "cluster_id" {
  description = "Name of the cluster"
  type        = string
}

variable "region" {
  description = "Region that everything is in"
  type        = string
}

variable "account_id" {
  description = "Account that everything is in"
  type        = string
}

locals {
  network = "10.192.0.0/16"
}

output "prefix" {
  description = "Begins the name of everything"
  value       = "det-${var.cluster_id}"
}

output "bucket" {
  description = "Bucket of checkpoints: names are shared by all accounts"
  value       = lower("det-${var.cluster_id}-${var.region}-${var.account_id}")

  precondition {
    condition     = length("det-${var.cluster_id}-${var.region}-${var.account_id}") <= 63
    error_message = "The cluster's name is too long for a bucket in this region: a bucket's name has 63 characters at most."
  }
}

output "network" {
  description = "Addresses of a network of its own"
  value       = local.network
}

output "subnets" {
  description = "Ranges of the public subnets, then of the private ones: one for each zone, no region has more than ten"
  value = {
    public  = [for index in range(10) : cidrsubnet(local.network, 8, 10 + index)]
    private = [for index in range(10) : cidrsubnet(local.network, 8, 20 + index)]
  }
}
