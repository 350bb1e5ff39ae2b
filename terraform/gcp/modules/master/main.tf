variable "name" {
  description = "Name of the machine, and its network tag"
  type        = string
}

variable "zone" {
  description = "Where it is"
  type        = string
}

variable "instance_type" {
  description = "Machine"
  type        = string
}

variable "min_cpu_platform" {
  description = "Oldest CPU; only N1 and later Intel machines take one"
  type        = string
}

variable "subnetwork" {
  description = "Its subnetwork"
  type        = string
}

variable "account" {
  description = "Its service account"
  type        = string
}

variable "boot" {
  description = "Script that the machine starts with, at every boot"
  type        = string
}

variable "disk" {
  description = "The data"
  type        = string
}

variable "labels" {
  description = "Of its disk, which the provider's default labels do not reach"
  type        = map(string)
}

variable "address" {
  description = "Its public address"
  type        = string
}

resource "google_compute_instance" "master" {
  #checkov:skip=CKV_GCP_38:Google's key is used; an own one would have to be kept
  #checkov:skip=CKV_GCP_40:users reach it there, from inbound_cidr
  name                      = var.name
  zone                      = var.zone
  machine_type              = var.instance_type
  min_cpu_platform          = startswith(var.instance_type, "n1-") ? var.min_cpu_platform : null
  tags                      = [var.name]
  metadata_startup_script   = var.boot
  allow_stopping_for_update = true

  metadata = {
    block-project-ssh-keys = "true"
    enable-oslogin         = "TRUE"
  }

  boot_disk {
    initialize_params {
      image  = "ubuntu-os-cloud/ubuntu-2404-lts-amd64"
      size   = 50
      labels = var.labels
    }
  }

  attached_disk {
    source      = var.disk
    device_name = "data"
  }

  network_interface {
    subnetwork = var.subnetwork

    access_config {
      nat_ip = var.address
    }
  }

  service_account {
    email  = var.account
    scopes = ["cloud-platform"]
  }

  shielded_instance_config {
    enable_secure_boot = true
  }

  lifecycle {
    ignore_changes = [boot_disk[0].initialize_params[0].image] # a new image must not replace a master that works
  }
}

output "name" {
  description = "The instance"
  value       = google_compute_instance.master.name
}
