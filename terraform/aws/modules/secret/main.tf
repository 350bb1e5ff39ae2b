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

variable "delete_data" {
  description = "Delete it at once, instead of after 7 days"
  type        = bool
}

resource "aws_secretsmanager_secret" "cluster" {
  #checkov:skip=CKV_AWS_149:a key of one's own costs money and one more permission; AWS's key is used
  #checkov:skip=CKV2_AWS_57:another password makes another master; up changes it
  name                    = var.name
  description             = "Passwords of the cluster; the master's role reads them"
  recovery_window_in_days = var.delete_data ? 0 : 7
}

resource "aws_secretsmanager_secret_version" "cluster" {
  secret_id                = aws_secretsmanager_secret.cluster.id
  secret_string_wo         = var.secrets
  secret_string_wo_version = var.secrets_version
}

output "arn" {
  description = "The secret, once it has a value"
  value       = aws_secretsmanager_secret_version.cluster.arn
}
