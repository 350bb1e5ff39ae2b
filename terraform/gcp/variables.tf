variable "cluster_id" {
  description = "Name of the cluster, in the names of everything"
  type        = string
}

variable "project_id" {
  description = "Project that everything is in"
  type        = string
}

variable "region" {
  description = "Region that everything is in"
  type        = string
}

variable "zone" {
  description = "Zone of the machines"
  type        = string
}

variable "labels" {
  description = "Labels of everything"
  type        = map(string)
}

variable "network" {
  description = "Name of the network"
  type        = string
}

variable "filestore" {
  description = "Make a Filestore"
  type        = bool
}

variable "inbound_cidr" {
  description = "Who may reach the master"
  type        = string
}

variable "ssh_cidr" {
  description = "Who may log in by SSH; empty: nobody"
  type        = string

  validation {
    condition     = var.ssh_cidr != "0.0.0.0/0"
    error_message = "SSH must not be open to everybody."
  }
}

variable "port" {
  description = "Port of the master"
  type        = number
}

variable "master_instance_type" {
  description = "Machine of the master"
  type        = string
}

variable "min_cpu_platform_master" {
  description = "Oldest CPU of the master's machine"
  type        = string
}

variable "master_boot" {
  description = "Template of the script that the master's machine starts with"
  type        = string
}

variable "master_permissions" {
  description = "What the master may do: generated from the calls of its provider"
  type        = list(string)
}

variable "database" {
  description = "managed: Cloud SQL. local: PostgreSQL on the master's machine"
  type        = string
}

variable "secrets" {
  description = "The cluster's secret, as JSON; never kept"
  type        = string
  default     = "{}"
  ephemeral   = true
  sensitive   = true
}

variable "secrets_version" {
  description = "Raised when `secrets` is to be written"
  type        = number
  default     = 1
}

variable "delete_data" {
  description = "Let buckets, databases and disks go with what is in them"
  type        = bool
  default     = false
}
