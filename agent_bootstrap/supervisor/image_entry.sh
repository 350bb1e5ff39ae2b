#!/bin/sh
# The first program of a container: finds a Python in the image and starts image_init.py with it.
# usage: image_entry.sh [ENTRYPOINT OF THE IMAGE...]
#
# Output goes where the supervisor reads it: to its pipes, where they are mounted, or to where it goes already.
# What is missing in the image is told on file descriptor 3, as image_init.py does.
task=/opt/windlass/task
if [ -p "$task/told" ]; then
    exec >"$task/out" 2>"$task/err" 3>"$task/told" </dev/null || exit 125
fi
python=${DET_PYTHON_EXECUTABLE:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    echo '{"failure": "task_error", "message": "the image has no python3 in its PATH, which every task is started with: use an image with Python 3.10 or newer, or name the interpreter in DET_PYTHON_EXECUTABLE"}' >&3
    exit 125
fi
exec "$@" "$python" -I -S /opt/windlass/agent_bootstrap/supervisor/image_init.py
