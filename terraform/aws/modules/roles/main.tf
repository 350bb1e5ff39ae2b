variable "name" {
  description = "Begins the names"
  type        = string
}

variable "bucket" {
  description = "ARN of the bucket of checkpoints"
  type        = string
}

variable "secret" {
  description = "ARN of the cluster's secret"
  type        = string
}

variable "master_policy" {
  description = "What the master may do to launch and end machines, as JSON"
  type        = string
}

data "aws_iam_policy_document" "machines" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "checkpoints" {
  statement {
    actions   = ["s3:ListBucket", "s3:GetBucketLocation", "s3:ListBucketMultipartUploads"]
    resources = [var.bucket]
  }

  statement {
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
    resources = ["${var.bucket}/*"]
  }
}

data "aws_iam_policy_document" "secret" {
  statement {
    actions   = ["secretsmanager:GetSecretValue"]
    resources = [var.secret]
  }
}

resource "aws_iam_role" "all" {
  for_each           = toset(["master", "agent"])
  name               = "${var.name}-${each.key}"
  assume_role_policy = data.aws_iam_policy_document.machines.json
}

resource "aws_iam_instance_profile" "all" {
  for_each = aws_iam_role.all
  name     = each.value.name
  role     = each.value.name
}

resource "aws_iam_role_policy" "checkpoints" {
  for_each = aws_iam_role.all
  name     = "checkpoints"
  role     = each.value.name
  policy   = data.aws_iam_policy_document.checkpoints.json
}

resource "aws_iam_role_policy" "machines" {
  name   = "machines"
  role   = aws_iam_role.all["master"].name
  policy = var.master_policy
}

resource "aws_iam_role_policy" "secret" {
  name   = "secret"
  role   = aws_iam_role.all["master"].name
  policy = data.aws_iam_policy_document.secret.json
}

output "master_profile" {
  description = "Instance profile of the master"
  value       = aws_iam_instance_profile.all["master"].name
}

output "agent_profile" {
  description = "ARN of the instance profile of the machines of pools"
  value       = aws_iam_instance_profile.all["agent"].arn
}
