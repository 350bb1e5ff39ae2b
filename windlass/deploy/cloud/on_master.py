"""On the master's machine: master.yaml of the template and the cluster's secret, which only its role may read."""

from __future__ import annotations

import argparse
import base64
import json
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from windlass.base.files import write_atomic
from windlass.base.formats.json_types import JsonObject

_TIMEOUT_S = 30
_GCP_TOKEN = "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a URL


def write_config(template: str, secret: JsonObject, folder: Path) -> None:
    """`master.yaml` and the files of the secret, for root and the master's group only."""
    document = _merged(yaml.safe_load(template), secret.get("config") or {})
    for name, text in (secret.get("files") or {}).items():
        target = folder / name
        target.parent.mkdir(mode=0o750, exist_ok=True)
        write_atomic(target, text.encode(), mode=0o640)
    write_atomic(
        folder / "master.yaml", yaml.safe_dump(document, sort_keys=False).encode(), mode=0o640
    )


def _merged(under: Any, over: Any) -> Any:
    if not isinstance(under, Mapping) or not isinstance(over, Mapping):
        return over
    return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}


def _secret_of_aws(name: str) -> str:
    """`name`: an ARN, which says the region."""
    import boto3

    client = boto3.client("secretsmanager", region_name=name.split(":")[3])
    return str(client.get_secret_value(SecretId=name)["SecretString"])


def _secret_of_gcp(name: str) -> str:
    """`name`: projects/PROJECT/secrets/NAME."""
    token = _json(_GCP_TOKEN, {"Metadata-Flavor": "Google"})["access_token"]
    url = f"https://secretmanager.googleapis.com/v1/{name}/versions/latest:access"
    payload = _json(url, {"Authorization": f"Bearer {token}"})["payload"]["data"]
    return base64.b64decode(payload).decode()


def _json(url: str, headers: Mapping[str, str]) -> JsonObject:
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - one of two fixed hosts
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
        content: JsonObject = json.load(reply)
    return content


SOURCES: Mapping[str, Callable[[str], str]] = {"aws": _secret_of_aws, "gcp": _secret_of_gcp}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cloud", choices=tuple(SOURCES), required=True)
    parser.add_argument("--secret", required=True)
    parser.add_argument("--template", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    secret = json.loads(SOURCES[given.cloud](given.secret))
    write_config(given.template.read_text(encoding="utf-8"), secret, given.folder)


if __name__ == "__main__":
    main()
