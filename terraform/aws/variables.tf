variable "cluster_id" {
  description = "Name of the cluster, in the names of everything"
  type        = string
}

variable "region" {
  description = "Region that everything is in"
  type        = string
}

variable "profile" {
  description = "Profile of AWS's shared files; empty: as the environment says"
  type        = string
  default     = ""
}

variable "tags" {
  description = "Tags of everything"
  type        = map(string)
}

variable "own_network" {
  description = "Make a VPC, instead of using the default one"
  type        = bool
}

variable "private" {
  description = "Master and machines without public addresses, behind a bastion"
  type        = bool
}

variable "files" {
  description = "Shared files: none, efs or fsx"
  type        = string
}

variable "files_id" {
  description = "An existing EFS or FSx for Lustre; empty: a new one"
  type        = string
}

variable "files_mount_name" {
  description = "Mount name of an existing FSx for Lustre"
  type        = string
}

variable "agent_subnet_ids" {
  description = "Subnets of the machines of pools; empty: those of the network, in all its zones"
  type        = list(string)
  default     = [] # clusters of older releases were made without it, and are removed without it
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

variable "keypair" {
  description = "Key pair of the machines; empty: none"
  type        = string
}

variable "master_instance_type" {
  description = "Machine of the master"
  type        = string
}

variable "master_boot" {
  description = "Template of the script that the master's machine starts with"
  type        = string
}

variable "master_policy" {
  description = "What the master may do, as JSON: generated from the calls of its provider"
  type        = string
}

variable "database" {
  description = "managed: RDS. local: PostgreSQL on the master's machine"
  type        = string
}

variable "db_instance_type" {
  description = "Class of RDS"
  type        = string
}

variable "db_size" {
  description = "Disk of RDS, in GB"
  type        = number
}

variable "db_snapshot" {
  description = "Snapshot that RDS is made from; empty: a new database"
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
