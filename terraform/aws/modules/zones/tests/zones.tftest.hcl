variables {
  zones         = ["us-west-2b", "us-west-2a", "us-west-2c"]
  sold          = ["us-west-2d", "us-west-2c", "us-west-2b"]
  instance_type = "m6i.large"
}

run "the_first_zone_that_sells_the_type" {
  command = plan

  assert {
    condition     = output.master == "us-west-2b"
    error_message = output.master
  }
}

run "a_type_that_no_zone_sells" {
  command = plan

  variables {
    sold = ["us-west-2d"]
  }

  expect_failures = [output.master]
}
