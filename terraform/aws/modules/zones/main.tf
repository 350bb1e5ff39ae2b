# Which zone the master is in. No provider: `terraform test` runs it.

variable "zones" {
  description = "Zones with a subnet"
  type        = list(string)
}

variable "sold" {
  description = "Zones in which the master's type is sold"
  type        = list(string)
}

variable "instance_type" {
  description = "The master's type"
  type        = string
}

locals {
  possible = [for zone in sort(var.zones) : zone if contains(var.sold, zone)]
}

output "master" {
  description = "Zone of the master and its disk, when they are made"
  value       = one(slice(local.possible, 0, min(1, length(local.possible))))

  precondition {
    condition     = length(local.possible) > 0
    error_message = "No zone of the network (${join(", ", var.zones)}) has ${var.instance_type}: choose another --master-instance-type."
  }
}
