variable "name" {
  description = "Name of the network"
  type        = string
}

variable "region" {
  description = "Region of its subnetwork"
  type        = string
}

variable "has_peered" {
  description = "Google's own services (Cloud SQL, Filestore) are connected to it"
  type        = bool
}

resource "google_compute_network" "cluster" {
  #checkov:skip=CKV2_GCP_18:module firewall has its rules
  name                    = var.name
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "cluster" {
  #checkov:skip=CKV_GCP_26:flow logs cost by the gigabyte
  name                     = var.name
  region                   = var.region
  network                  = google_compute_network.cluster.id
  ip_cidr_range            = "10.192.0.0/20"
  private_ip_google_access = true
}

# Machines of pools have no public addresses; packages and images reach them through this.
resource "google_compute_router" "cluster" {
  name    = var.name
  region  = var.region
  network = google_compute_network.cluster.id
}

resource "google_compute_router_nat" "cluster" {
  name                               = var.name
  region                             = var.region
  router                             = google_compute_router.cluster.name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}

resource "google_compute_global_address" "services" {
  count         = var.has_peered ? 1 : 0
  name          = "${var.name}-services"
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 16
  network       = google_compute_network.cluster.id
}

resource "google_service_networking_connection" "services" {
  count                   = var.has_peered ? 1 : 0
  network                 = google_compute_network.cluster.id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.services[0].name]
}

output "id" {
  description = "The network"
  value       = google_compute_network.cluster.id
}

output "name" {
  description = "Its name"
  value       = google_compute_network.cluster.name
}

output "subnetwork" {
  description = "Name of its subnetwork"
  value       = google_compute_subnetwork.cluster.name
}
