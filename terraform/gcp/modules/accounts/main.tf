variable "name" {
  description = "Begins the names"
  type        = string
}

variable "project_id" {
  description = "Project that everything is in"
  type        = string
}

variable "bucket" {
  description = "Bucket of checkpoints"
  type        = string
}

variable "secret" {
  description = "The cluster's secret"
  type        = string
}

variable "master_permissions" {
  description = "What the master may do to launch and end machines"
  type        = list(string)
}

# An account's id has 30 characters at most.
resource "google_service_account" "all" {
  for_each     = toset(["master", "agent"])
  account_id   = "${trim(substr(var.name, 0, 23), "-")}-${each.key}"
  display_name = "${var.name}-${each.key}"
}

resource "google_project_iam_custom_role" "master" {
  role_id     = replace("${var.name}_master", "-", "_")
  title       = "Windlass master ${var.name}"
  permissions = var.master_permissions
}

resource "google_project_iam_member" "master" {
  project = var.project_id
  role    = google_project_iam_custom_role.master.id
  member  = google_service_account.all["master"].member
}

resource "google_service_account_iam_member" "master_as_agent" {
  service_account_id = google_service_account.all["agent"].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.all["master"].member
}

resource "google_storage_bucket_iam_member" "checkpoints" {
  for_each = google_service_account.all
  bucket   = var.bucket
  role     = "roles/storage.objectAdmin"
  member   = each.value.member
}

resource "google_secret_manager_secret_iam_member" "master" {
  secret_id = var.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.all["master"].member
}

output "master" {
  description = "Account of the master"
  value       = google_service_account.all["master"].email
  depends_on  = [google_project_iam_member.master, google_secret_manager_secret_iam_member.master]
}

output "agent" {
  description = "Account of the machines of pools"
  value       = google_service_account.all["agent"].email
}
