variable "name" {
  description = "Begins the name; Cloud SQL keeps a used name for a week"
  type        = string
}

variable "region" {
  description = "Where it is"
  type        = string
}

variable "network" {
  description = "The network that reaches it"
  type        = string
}

variable "labels" {
  description = "Of its machine, which the provider's default labels do not reach"
  type        = map(string)
}

variable "password" {
  description = "Never kept"
  type        = string
  ephemeral   = true
  sensitive   = true
}

variable "password_version" {
  description = "Raised when the password is to be written"
  type        = number
}

variable "delete_data" {
  description = "Let it go with what is in it"
  type        = bool
}

# Not a resource of a random provider: its number is enough of a difference, and changes with nothing.
resource "terraform_data" "made" {
  input = formatdate("YYMMDDhhmmss", timestamp())

  lifecycle {
    ignore_changes = [input]
  }
}

resource "google_sql_database_instance" "master" {
  #checkov:skip=CKV_GCP_6:ssl_mode says it, which replaced require_ssl
  #checkov:skip=CKV_GCP_79:16 is tested; another one is for the operator to choose
  #checkov:skip=CKV_GCP_108:asks DNS at each connection
  #checkov:skip=CKV_GCP_110:the master has an audit of its own
  #checkov:skip=CKV_GCP_111:statements hold data of users
  #checkov:skip=CKV2_GCP_13:a line for each statement
  name                = "${var.name}-${terraform_data.made.output}"
  region              = var.region
  database_version    = "POSTGRES_16"
  deletion_protection = !var.delete_data

  settings {
    tier        = "db-g1-small"
    edition     = "ENTERPRISE"
    user_labels = var.labels

    database_flags {
      name  = "log_checkpoints"
      value = "on"
    }

    database_flags {
      name  = "log_connections"
      value = "on"
    }

    database_flags {
      name  = "log_disconnections"
      value = "on"
    }

    database_flags {
      name  = "log_lock_waits"
      value = "on"
    }

    database_flags {
      name  = "log_min_error_statement"
      value = "error"
    }

    backup_configuration {
      enabled = true
    }

    ip_configuration {
      ipv4_enabled    = false
      private_network = var.network
      ssl_mode        = "ENCRYPTED_ONLY"
    }
  }
}

resource "google_sql_database" "master" {
  name     = "determined"
  instance = google_sql_database_instance.master.name
}

resource "google_sql_user" "master" {
  name                = "determined"
  instance            = google_sql_database_instance.master.name
  password_wo         = var.password
  password_wo_version = var.password_version
}

output "host" {
  description = "Address of the database"
  value       = google_sql_database_instance.master.private_ip_address
  depends_on  = [google_sql_database.master, google_sql_user.master]
}
