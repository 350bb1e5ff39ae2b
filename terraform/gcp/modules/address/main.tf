variable "name" {
  description = "Begins the name"
  type        = string
}

variable "region" {
  description = "Where it is"
  type        = string
}

resource "google_compute_address" "master" {
  name   = "${var.name}-master"
  region = var.region
}

output "ip" {
  description = "The address"
  value       = google_compute_address.master.address
}
