"""Tasks in containers of Docker or Podman, by the engine's socket."""
