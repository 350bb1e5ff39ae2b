variables {
  cluster_id = "Lab"
  region     = "us-west-2"
  account_id = "123456789012"
}

run "names" {
  command = plan

  assert {
    condition     = output.prefix == "det-Lab"
    error_message = "prefix"
  }

  assert {
    condition     = output.bucket == "det-lab-us-west-2-123456789012"
    error_message = "buckets have small letters"
  }
}

run "subnets_do_not_overlap" {
  command = plan

  assert {
    condition     = output.subnets == { public = ["10.192.10.0/24", "10.192.11.0/24"], private = ["10.192.20.0/24", "10.192.21.0/24"] }
    error_message = "subnets"
  }
}

run "a_name_that_no_bucket_can_have" {
  command = plan

  variables {
    cluster_id = "a-name-of-forty-characters-in-all-x-x-x-"
  }

  expect_failures = [output.bucket]
}
