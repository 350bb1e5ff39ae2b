#!/bin/sh
# What Enroot starts in a container in the place of the image's own script: the command, and nothing before it.
exec "$@"
