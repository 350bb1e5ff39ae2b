variable "name" {
  description = "Name of the Filestore"
  type        = string
}

variable "zone" {
  description = "Where it is"
  type        = string
}

variable "network" {
  description = "The network that reaches it"
  type        = string
}

resource "google_filestore_instance" "files" {
  name     = var.name
  location = var.zone
  tier     = "BASIC_HDD"

  file_shares {
    name        = "share"
    capacity_gb = 1024
  }

  networks {
    network = var.network
    modes   = ["MODE_IPV4"]
  }
}

output "host" {
  description = "Address of the Filestore"
  value       = google_filestore_instance.files.networks[0].ip_addresses[0]
}
