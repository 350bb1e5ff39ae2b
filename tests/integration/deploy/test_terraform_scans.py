"""Our Terraform files against checkov, and against the schemas of the plug-ins, which we can have without the plug-ins.

`make test-slow` sets both up in an environment of their own.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import hcl2
import pytest
from hcl2.utils import SerializationOptions

from tests.unit.deploy.test_terraform_files import TAGGED, TAGGED_INSIDE, UNTAGGABLE
from windlass.deploy.cloud.terraform import modules_of

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
SCANS = ROOT / ".scans"
CHECKOV = SCANS / "bin" / "checkov"
CLOUDS = {"aws": "aws", "gcp": "google"}
META = {"count", "for_each", "depends_on", "lifecycle", "provider", "provisioner"}


@pytest.mark.skipif(not CHECKOV.exists(), reason="checkov is not installed (make test-slow)")
def test_checkov_finds_nothing_that_has_no_reason_beside_it() -> None:
    folder = str(modules_of("aws").parent)
    command = [str(CHECKOV), "-d", folder, "--framework", "terraform", "-o", "json"]
    done = subprocess.run(
        [*command, "--skip-download"], capture_output=True, text=True, check=False, cwd=SCANS
    )
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 200, done.stderr
    assert [
        f"{each['check_id']} {each['resource']}: {each['check_name']}"
        for each in report["results"]["failed_checks"]
    ] == []
    reasons = [
        each["check_result"]["suppress_comment"] for each in report["results"]["skipped_checks"]
    ]
    assert all(reasons)


class Schemas:
    """Of the resources of one plug-in, as its package for the CDK has them."""

    def __init__(self, wheel: Path) -> None:
        self.types: Mapping[str, Any] = _assembly(wheel)["types"]
        self.of: dict[tuple[str, str], str] = {}
        for name, described in self.types.items():
            link = r"Represents a \{@link \S+/docs/(resources|data-sources)/\S+ (\w+)\}"
            if found := re.search(link, _docs(described)):
                self.of[(found[1], found[2])] = f"{name}Config"

    def problems(self, where: str, body: Mapping[str, Any], name: str) -> Iterator[str]:
        arguments = self.arguments(name)
        for key, value in body.items():
            if key in META or key.startswith("__"):
                continue
            if key not in arguments:
                yield f"{where}: there is no {key}"
            elif inner := self._block(arguments[key]):
                for block in value if isinstance(value, list) else [value]:
                    if isinstance(block, dict):
                        yield from self.problems(f"{where}.{key}", block, inner)
        for key, argument in arguments.items():
            if not argument.get("optional") and key not in body:
                yield f"{where}: {key} is missing"
            if key in body and "deprecated" in argument.get("docs", {}):
                yield f"{where}: {key} is deprecated"

    def arguments(self, name: str) -> dict[str, Any]:
        found = {}
        for argument in self.types[name].get("properties", ()):
            if link := re.search(r"#(\w+) \w+#\w+\}", _docs(argument)):
                found[link[1]] = argument
        return found

    def _block(self, argument: Mapping[str, Any]) -> str | None:
        names = re.findall(r'"(@cdktf/provider-\w+\.[\w.]+)"', json.dumps(argument.get("type")))
        return names[0] if names and names[0] in self.types else None


def _docs(described: Mapping[str, Any]) -> str:
    docs = described.get("docs") or {}
    return f"{docs.get('summary', '')}{docs.get('remarks', '')}"


@cache
def _assembly(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as outer:
        (package,) = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(package))) as inner:
            file = inner.extractfile("package/.jsii")
            assert file is not None
            text = file.read()
            redirect: dict[str, Any] = json.loads(text)
            if "types" not in redirect:
                import gzip

                packed = inner.extractfile(f"package/{redirect['filename']}")
                assert packed is not None
                redirect = json.loads(gzip.decompress(packed.read()))
    return redirect


def _schemas(cloud: str) -> Schemas:
    wheels = list(SCANS.glob(f"schemas/cdktf_cdktf_provider_{CLOUDS[cloud]}-*.whl"))
    if not wheels:
        pytest.skip("the schemas of the plug-ins are not there (make test-slow)")
    return Schemas(wheels[0])


@pytest.mark.parametrize("cloud", CLOUDS)
def test_resources_have_the_arguments_that_their_plug_ins_know(cloud: str) -> None:
    schemas = _schemas(cloud)
    problems, looked_at = [], 0
    for path in sorted(modules_of(cloud).rglob("*.tf")):
        with path.open() as file:
            options = SerializationOptions(strip_string_quotes=True)
            document = hcl2.load(file, serialization_options=options)
        for where, kind, name, body in _declared(document):
            looked_at += 1
            config = schemas.of.get((kind, name))
            if config is None:
                problems.append(f"{path.parent.name}: the plug-in has no {where}")
            else:
                problems += schemas.problems(f"{path.parent.name}: {where}", body, config)
    assert problems == []
    assert looked_at > 20


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_could_carry_a_tag_is_known(cloud: str) -> None:
    schemas = _schemas(cloud)
    can = {
        kind
        for kind in TAGGED | TAGGED_INSIDE | UNTAGGABLE
        if (config := schemas.of.get(("resources", kind)))
        and schemas.arguments(config).keys() & {"tags", "labels"}
    }
    assert can == {kind for kind in TAGGED if kind.startswith(f"{CLOUDS[cloud]}_")}


def _declared(document: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for key, kind in (("resource", "resources"), ("data", "data-sources")):
        for block in document.get(key, ()):
            for name, bodies in block.items():
                if name.startswith("__") or name == "terraform_data":
                    continue
                for own, body in bodies.items():
                    if not own.startswith("__"):
                        yield f"{key} {name}.{own}", kind, name, body
