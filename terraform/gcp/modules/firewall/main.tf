variable "name" {
  description = "Begins the names"
  type        = string
}

variable "network" {
  description = "The network"
  type        = string
}

variable "master_tag" {
  description = "Network tag of the master"
  type        = string
}

variable "agent_tag" {
  description = "Network tag of the machines of pools"
  type        = string
}

variable "inbound_cidr" {
  description = "Who may reach the master"
  type        = string
}

variable "ssh_cidr" {
  description = "Who may log in by SSH; empty: nobody"
  type        = string
}

variable "port" {
  description = "Port of the master"
  type        = number
}

resource "google_compute_firewall" "master" {
  name          = "${var.name}-master"
  network       = var.network
  source_ranges = [var.inbound_cidr]
  target_tags   = [var.master_tag]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.port)]
  }
}

resource "google_compute_firewall" "ssh" {
  count         = var.ssh_cidr == "" ? 0 : 1
  name          = "${var.name}-ssh"
  network       = var.network
  source_ranges = [var.ssh_cidr]
  target_tags   = [var.master_tag]

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}

resource "google_compute_firewall" "to_master" {
  name        = "${var.name}-to-master"
  network     = var.network
  source_tags = [var.agent_tag]
  target_tags = [var.master_tag]

  allow {
    protocol = "tcp"
    ports    = [tostring(var.port)]
  }
}

resource "google_compute_firewall" "agents" {
  name        = "${var.name}-agents"
  network     = var.network
  source_tags = [var.agent_tag, var.master_tag]
  target_tags = [var.agent_tag]

  allow {
    protocol = "tcp"
  }

  allow {
    protocol = "udp"
  }

  allow {
    protocol = "icmp"
  }
}
