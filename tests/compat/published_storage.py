"""Runs in the environment of the published package: operations of its storage managers, one after another.

Usage: published_storage.py CONFIG_JSON [upload|download|delete|tensorboard FOLDER DIRECTORY|GLOBS_JSON]...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from determined import tensorboard
from determined.common import storage

config = json.loads(sys.argv[1])
manager = storage.build(config, container_path=None)
arguments = iter(sys.argv[2:])
for operation in arguments:
    folder, directory = next(arguments), next(arguments)
    if operation == "upload":
        manager.upload(directory, folder)
    elif operation == "download":
        manager.download(folder, directory)
    elif operation == "delete":
        print(json.dumps(manager.delete(folder, json.loads(directory))))
    elif operation == "tensorboard":
        files = tensorboard.build("cluster", "3", "7", config, async_upload=False)
        files.base_path = Path(directory)
        files.sync()
