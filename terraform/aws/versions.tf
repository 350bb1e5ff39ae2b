terraform {
  required_version = ">= 1.11" # write-only arguments: no password is kept in the state

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

provider "aws" {
  region  = var.region
  profile = var.profile == "" ? null : var.profile

  default_tags {
    tags = var.tags
  }
}
