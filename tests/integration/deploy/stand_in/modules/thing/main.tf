variable "name" {
  type = string
}

variable "more" {
  type    = string
  default = ""
}

variable "protected" {
  type    = bool
  default = false
}

resource "terraform_data" "it" {
  input = {
    name      = var.name
    more      = var.more
    protected = var.protected
  }

  # Files beside say what fails, and what waits.
  provisioner "local-exec" {
    command = "while test -e ../hold-$NAME; do touch ../holding-$NAME; sleep 0.1; done; test ! -e ../fail-$NAME || { echo 'no stock' >&2; exit 1; }; echo \"make $NAME $MORE\" >>../events"

    environment = {
      NAME = var.name
      MORE = var.more
    }
  }

  provisioner "local-exec" {
    when    = destroy
    command = "test ! -e ../fail-$NAME || exit 1; test $PROTECTED = false || { echo 'is protected' >&2; exit 1; }; echo \"remove $NAME\" >>../events"

    environment = {
      NAME      = self.input.name
      PROTECTED = self.input.protected
    }
  }
}
