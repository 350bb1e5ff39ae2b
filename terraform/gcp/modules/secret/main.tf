variable "name" {
  description = "Name of the secret"
  type        = string
}

variable "secrets" {
  description = "Its value; never kept"
  type        = string
  ephemeral   = true
  sensitive   = true
}

variable "secrets_version" {
  description = "Raised when the value is to be written"
  type        = number
}

resource "google_secret_manager_secret" "cluster" {
  secret_id = var.name

  replication {
    auto {}
  }
}

resource "google_secret_manager_secret_version" "cluster" {
  secret                 = google_secret_manager_secret.cluster.id
  secret_data_wo         = var.secrets
  secret_data_wo_version = var.secrets_version
}

output "id" {
  description = "The secret, once it has a value"
  value       = google_secret_manager_secret.cluster.id
  depends_on  = [google_secret_manager_secret_version.cluster]
}
