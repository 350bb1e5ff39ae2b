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
    condition     = length(distinct(concat(output.subnets.public, output.subnets.private))) == 20
    error_message = "subnets"
  }

  # Subnets of clusters that exist keep their ranges.
  assert {
    condition     = slice(output.subnets.public, 0, 2) == ["10.192.10.0/24", "10.192.11.0/24"] && slice(output.subnets.private, 0, 2) == ["10.192.20.0/24", "10.192.21.0/24"]
    error_message = "the first two of each"
  }
}

run "a_name_that_no_bucket_can_have" {
  command = plan

  variables {
    cluster_id = "a-name-of-forty-characters-in-all-x-x-x-"
  }

  expect_failures = [output.bucket]
}
