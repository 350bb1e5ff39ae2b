run "fills_in_what_it_knows" {
  command = plan

  variables {
    template = join("{", ["a: $", "bucket}\nb: $$", "HOME}\nc: %%", "if}\nd: \"$", "nothing}$", "blank}\"\n"])
    values   = { bucket = "det-lab", nothing = null, blank = " ", more = "x" }
  }

  assert {
    condition     = output.script == join("{", ["a: det-lab\nb: $", "HOME}\nc: %", "if}\nd: \"\"\n"])
    error_message = output.script
  }
}
