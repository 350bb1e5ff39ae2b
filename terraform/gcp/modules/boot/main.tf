# The script of the master's machine, with what is known only now. No provider: `terraform test` runs it.

variable "template" {
  description = "For templatestring"
  type        = string
}

variable "values" {
  description = "What it may name; null: not there"
  type        = map(string)
}

output "script" {
  description = "The script; no secret is in it"
  value       = templatestring(var.template, { for name, value in var.values : name => value == null ? "" : trimspace(value) })
}
