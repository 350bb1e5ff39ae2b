"""Shell that comes before lines of operators and users."""

MODULES = """if ! type module >/dev/null 2>&1; then
  set +e
  for file in /etc/profile.d/modules.sh /etc/profile.d/lmod.sh /etc/profile.d/z00_lmod.sh; do
    if [ -r "$file" ]; then . "$file"; fi
  done
  set -e
fi"""
"""A shell that is no login shell has no `module`, where the machine has it."""
