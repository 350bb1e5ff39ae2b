"""Tasks in containers of Docker or Podman, by the engine's socket.

Images are pulled once and removed again; the supervisor starts what the engine has created.
"""
