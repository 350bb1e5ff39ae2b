# The master's data: it outlives the master's machine.

variable "name" {
  description = "Begins the name"
  type        = string
}

variable "zone" {
  description = "Where it is, and so the master"
  type        = string
}

resource "google_compute_disk" "data" {
  #checkov:skip=CKV_GCP_37:Google's key is used; an own one would have to be kept
  name = "${var.name}-data"
  zone = var.zone
  type = "pd-balanced"
  size = 100
}

output "id" {
  description = "The disk"
  value       = google_compute_disk.data.id
}
