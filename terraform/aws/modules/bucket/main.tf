variable "name" {
  description = "Name of the bucket"
  type        = string
}

variable "delete_data" {
  description = "Let it go with what is in it"
  type        = bool
}

resource "aws_s3_bucket" "checkpoints" {
  #checkov:skip=CKV_AWS_18:logs of all reads of checkpoints cost money
  #checkov:skip=CKV2_AWS_62:nobody listens
  #checkov:skip=CKV_AWS_144:doubles the price
  #checkov:skip=CKV_AWS_21:deleted checkpoints are to free their space
  #checkov:skip=CKV_AWS_145:a key of one's own costs money and one more permission; AWS's key is used
  bucket        = var.name
  force_destroy = var.delete_data
}

resource "aws_s3_bucket_public_access_block" "checkpoints" {
  bucket                  = aws_s3_bucket.checkpoints.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "checkpoints" {
  bucket = aws_s3_bucket.checkpoints.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "checkpoints" {
  bucket = aws_s3_bucket.checkpoints.id

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"
    filter {}

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

data "aws_iam_policy_document" "tls_only" {
  statement {
    effect    = "Deny"
    actions   = ["s3:*"] # a denial: nothing without TLS
    resources = [aws_s3_bucket.checkpoints.arn, "${aws_s3_bucket.checkpoints.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "checkpoints" {
  bucket     = aws_s3_bucket.checkpoints.id
  policy     = data.aws_iam_policy_document.tls_only.json
  depends_on = [aws_s3_bucket_public_access_block.checkpoints]
}

output "name" {
  description = "The bucket"
  value       = aws_s3_bucket.checkpoints.id
}

output "arn" {
  description = "ARN of the bucket"
  value       = aws_s3_bucket.checkpoints.arn
}
