variable "name" {
  description = "Name of the bucket"
  type        = string
}

variable "region" {
  description = "Where it is"
  type        = string
}

variable "delete_data" {
  description = "Let it go with what is in it"
  type        = bool
}

resource "google_storage_bucket" "checkpoints" {
  #checkov:skip=CKV_GCP_62:logs of all reads of checkpoints cost money
  #checkov:skip=CKV_GCP_78:deleted checkpoints are to free their space
  name                        = var.name
  location                    = var.region
  force_destroy               = var.delete_data
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
}

output "name" {
  description = "The bucket"
  value       = google_storage_bucket.checkpoints.name
}
