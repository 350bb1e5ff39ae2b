"""What moto's EC2 lacks, as WSGI middleware before it: faults, capacity, tokens, and refusals of what EC2 refuses.

A rule is JSON, put by POST /__rule: {"action": "RunInstances", "match": {"InstanceType": "g4dn.*"}, ...}
    code, status, message   the error that is answered instead
    times                   how often; -1: until POST /__mend
    lost                    "reply": carried out, and the connection ends without an answer; "request": not carried out
    hang                    not answered until POST /__mend
    stock                   so many machines more can be had, then InsufficientInstanceCapacity
POST /__hide {"seconds": 2}           lists miss machines younger than that
POST /__reservation {...}             a capacity reservation that exists, as DescribeCapacityReservations answers it
POST /__console {"id": ..., "text"}   what a machine wrote to its console
POST /__public_parameter {"name", "value"}  of SSM, as AWS itself keeps them
POST /__quota {"code": ..., "value"}  what GetServiceQuota answers instead of 64
POST /__price {"type", "region", "usd"} of the price list
POST /__shut_down {"id": ...}         a machine ends itself
POST /__images {"state": "pending"}   of those that exist, and of those that are made from now on
GET  /__calls                         every call since the start: action and its parameters
GET  /__permissions                   what IAM asks for the calls of Windlass among them
POST /__reset                         all of it forgotten, and all machines
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import socket
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode
from xml.sax.saxutils import escape

from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.iam.models import iam_backends

from tests.fakes.aws_prices import NAMESPACE, products, with_spot_prices
from tests.fakes.ec2_images import (
    IN_USE,
    made_images,
    remove_made_images,
    uses,
    without_snapshot_tags,
)

ACCOUNT = "123456789012"
MAX_USER_DATA = 16 * 1024
OUR_AGENT = "windlass"
"""In the user agent of what the provider asks; tests ask as boto3."""
_STATUS = {
    400: "400 Bad Request",
    403: "403 Forbidden",
    500: "500 Internal Server Error",
    503: "503 Service Unavailable",
}
_INSTANCE_ID = re.compile(r"<instanceId>(i-[0-9a-f]+)</instanceId>")

Form = dict[str, str]
Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


class Refused(Exception):
    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class Ec2Faults:
    """One for a server, whose state is that of its process."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._changing = threading.Lock()
        """Machines are launched, stopped, started and ended one call after another: moto revives one that is stopped
        while it is ended."""
        self._mended = threading.Event()
        self._clear()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        path = environ["PATH_INFO"]
        if path.startswith("/__"):
            return _json(start, self._control(path[3:], json.loads(body or b"{}")))
        environ["wsgi.input"] = io.BytesIO(body)
        form = dict(parse_qsl(body.decode("latin1"), keep_blank_values=True))
        if "Action" not in form:
            target = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
            form = {"Action": target} if target else {}
        if not form.get("Action"):
            return self._app(environ, start)
        form["Region"] = _region(environ)
        with self._lock:
            self._calls.append(form)
            if OUR_AGENT in environ.get("HTTP_USER_AGENT", ""):
                self._permissions |= permissions_of(_service(environ), form)
        try:
            status, headers, content = self._answer(environ, form)
        except Refused as refused:
            return _error(environ, start, refused)
        except ConnectionAbortedError:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        start(status, headers)
        return [content]

    def _answer(self, environ: dict[str, Any], form: Form) -> tuple[str, list[Any], bytes]:
        rule = self._rule(form)
        if rule.get("hang"):
            self._mended.wait(600)
            raise ConnectionAbortedError
        if rule.get("lost") == "request":
            raise ConnectionAbortedError
        if "code" in rule:
            raise Refused(rule["code"], rule.get("message", "injected"), rule.get("status", 400))
        action = form["Action"]
        if action.startswith("Describe") and form.get("DryRun") == "true":
            # moto carries these out, all 1,400 types and 6,400 prices of them.
            raise Refused("DryRunOperation", "Request would have succeeded", 412)
        if action in _CHANGES:
            with self._changing:
                answer = _CHANGES[action](self, environ, form)
        elif action == "CreateImage":
            answer = self._create_image(environ, form)
        elif action == "DeleteSnapshot":
            if uses(ec2_backends[ACCOUNT][form["Region"]], form["SnapshotId"]):
                raise Refused(IN_USE, "The snapshot is in use by an image")
            answer = self._forward(environ)
        elif action == "GetProducts":
            answer = products(self._prices, body_of(environ))
        elif action == "GetParameters":
            answer = self._with_public(self._forward(environ))
        elif action == "GetServiceQuota":
            answer = self._quota(body_of(environ))
        elif action == "DescribeSpotPriceHistory":
            status, headers, content = self._forward(environ)
            headers = [(k, v) for k, v in headers if k.lower() != "content-length"]
            answer = status, headers, with_spot_prices(content, form["Region"])
        elif action in _OWN:
            answer = ("200 OK", [("Content-Type", "text/xml")], _OWN[action](self, form))
        else:
            answer = self._forward(environ)
        if action == "DescribeInstances" and self._hide_s:
            answer = self._without_young(answer)
        if rule.get("lost") == "reply":
            raise ConnectionAbortedError
        return answer

    def _rule(self, form: Form) -> Mapping[str, Any]:
        with self._lock:
            for rule in self._rules:
                if rule["action"] != form["Action"] or not rule.get("times", 1):
                    continue
                if all(
                    re.fullmatch(pattern, form.get(key, ""))
                    for key, pattern in rule.get("match", {}).items()
                ):
                    if "stock" in rule:
                        self._take(rule, form)
                        continue
                    rule["times"] = rule.get("times", 1) - 1
                    return rule
        return {}

    def _with_public(self, answer: tuple[str, list[Any], bytes]) -> tuple[str, list[Any], bytes]:
        """Nobody but AWS may put what begins with /aws."""
        said = json.loads(answer[2])
        found = [name for name in said["InvalidParameters"] if name in self._parameters]
        said["Parameters"] += [{"Name": n, "Value": self._parameters[n]} for n in found]
        said["InvalidParameters"] = [n for n in said["InvalidParameters"] if n not in found]
        headers = [header for header in answer[1] if header[0].lower() != "content-length"]
        return answer[0], headers, json.dumps(said).encode()

    def _take(self, rule: dict[str, Any], form: Form) -> None:
        wanted = int(form.get("MinCount", 1))
        if form.get("ClientToken") in self._tokens:
            return
        if wanted > rule["stock"]:
            raise Refused(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {form.get('InstanceType')} capacity in the "
                "Availability Zone you requested.",
                500,
            )
        rule["stock"] -= wanted

    def _run_instances(self, environ: dict[str, Any], form: Form) -> tuple[str, list[Any], bytes]:
        token = (form.get("ClientToken", ""), form["Region"])
        said = hashlib.sha256(json.dumps(sorted(form.items())).encode()).hexdigest()
        if token[0] and token in self._tokens:
            return self._again(*self._tokens[token], said)
        self._refuse_what_ec2_refuses(form)
        answer = self._forward(environ)
        if answer[0].startswith("200"):
            for instance_id in _INSTANCE_ID.findall(answer[2].decode()):
                self._born[instance_id] = time.monotonic()
            if token[0]:
                self._tokens[token] = (said, answer)
        return answer

    def _again(
        self, said_before: str, answer: tuple[str, list[Any], bytes], said: str
    ) -> tuple[str, list[Any], bytes]:
        if said_before != said:
            raise Refused("IdempotentParameterMismatch", "The token was used with other parameters")
        ids = set(_INSTANCE_ID.findall(answer[2].decode()))
        if ids and ids <= self._dead:
            raise Refused("IdempotentInstanceTerminated", "The instances have been terminated")
        return answer

    def _refuse_what_ec2_refuses(self, form: Form) -> None:
        """moto takes all of these."""
        backend = ec2_backends[ACCOUNT][form["Region"]]
        user_data = base64.b64decode(form.get("UserData", ""))
        if len(user_data) > MAX_USER_DATA:
            raise Refused("InvalidParameterValue", "User data is limited to 16384 bytes")
        if len(form.get("ClientToken", "")) > 64:
            raise Refused("InvalidParameterValue", "Client token is too long")
        image, type_ = form.get("ImageId", ""), form.get("InstanceType", "")
        if image and image not in backend.amis:
            raise Refused("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
        if type_ not in INSTANCE_TYPES:
            raise Refused("InvalidParameterValue", f"Invalid value '{type_}' for InstanceType.")
        key = form.get("KeyName", "")
        if key and key not in backend.key_pairs:
            raise Refused("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")
        profile = form.get("IamInstanceProfile.Arn", "")
        if profile and profile not in _profiles():
            raise Refused(
                "InvalidParameterValue",
                f"Value ({profile}) for parameter iamInstanceProfile.arn is invalid. "
                "Invalid IAM Instance Profile ARN",
            )
        reservation = form.get(
            "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", ""
        )
        if reservation and reservation not in self._reservations:
            raise Refused(
                "InvalidCapacityReservationId.NotFound", f"There is no reservation {reservation}"
            )
        group = form.get("Placement.GroupName", "")
        if group and group not in self._groups:
            raise Refused(
                "InvalidPlacementGroup.Unknown", f"The Placement Group '{group}' is unknown."
            )

    def _create_image(self, environ: dict[str, Any], form: Form) -> tuple[str, list[Any], bytes]:
        """moto can neither tag snapshots nor refuse names."""
        backend = ec2_backends[ACCOUNT][form["Region"]]
        if any(each.name == form["Name"] for each in backend.amis.values()):
            raise Refused("InvalidAMIName.Duplicate", f"AMI name {form['Name']} is already in use")
        kept, tags = without_snapshot_tags(form)
        del kept["Region"]
        body = urlencode(kept).encode()
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        answer = self._forward(environ)
        for image in made_images(backend):
            if image.name == form["Name"]:
                image.state = self._images_are
                image.ebs_snapshot.add_tags(tags)
        return answer

    def _terminate_instances(
        self, environ: dict[str, Any], form: Form
    ) -> tuple[str, list[Any], bytes]:
        """moto refuses to end a machine twice."""
        wanted = [value for key, value in form.items() if key.startswith("InstanceId.")]
        asked = [id_ for id_ in wanted if id_ not in self._dead]
        if not asked:
            return "200 OK", [("Content-Type", "text/xml")], _reply("TerminateInstances", "")
        kept = {k: v for k, v in form.items() if not k.startswith(("InstanceId.", "Region"))}
        kept |= {f"InstanceId.{number}": id_ for number, id_ in enumerate(asked, 1)}
        body = urlencode(kept).encode()
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        answer = self._forward(environ)
        if answer[0].startswith("200"):
            self._dead |= set(asked)
        return answer

    def _switch(self, environ: dict[str, Any], form: Form) -> tuple[str, list[Any], bytes]:
        """moto stops and starts what has ended."""
        if form["InstanceId.1"] in self._dead:
            raise Refused("IncorrectInstanceState", "The instance has been terminated", 400)
        return self._forward(environ)

    def _forward(self, environ: dict[str, Any]) -> tuple[str, list[Any], bytes]:
        kept: list[Any] = []

        def start(status: str, headers: list[Any], *_: Any) -> Callable[[bytes], None]:
            kept.extend((status, headers))
            return lambda _: None

        content = b"".join(self._app(environ, start))
        return kept[0], kept[1], content

    def _without_young(self, answer: tuple[str, list[Any], bytes]) -> tuple[str, list[Any], bytes]:
        status, headers, content = answer
        now = time.monotonic()
        young = {id_ for id_, born in self._born.items() if now - born < self._hide_s}
        root = ElementTree.fromstring(content)  # noqa: S314 - moto wrote it
        for machines in root.iter(f"{{{NAMESPACE}}}instancesSet"):
            for machine in list(machines):
                if machine.findtext(f"{{{NAMESPACE}}}instanceId") in young:
                    machines.remove(machine)
        headers = [(k, v) for k, v in headers if k.lower() != "content-length"]
        ElementTree.register_namespace("", NAMESPACE)
        return status, headers, ElementTree.tostring(root)

    def _control(self, verb: str, body: dict[str, Any]) -> Any:
        with self._lock:
            match verb:
                case "rule":
                    self._rules.append(body)
                case "hide":
                    self._hide_s = float(body["seconds"])
                case "reservation":
                    self._reservations[body["capacityReservationId"]] = body
                case "quota":
                    self._quotas[body["code"]] = float(body["value"])
                case "public_parameter":
                    self._parameters[body["name"]] = body["value"]
                case "price":
                    self._prices[body["type"], body["region"]] = body["usd"]
                case "console":
                    self._consoles[body["id"]] = body["text"]
                case "shut_down":
                    self._shut_down(body["id"])
                case "images":
                    self._images_are = body["state"]
                    for backend in ec2_backends[ACCOUNT].values():
                        for image in made_images(backend):
                            image.state = self._images_are
                case "calls":
                    return self._calls
                case "permissions":
                    return sorted(self._permissions)
                case "mend":
                    self._mend()
                case "reset":
                    self._mend()
                    self._clear()
                    for backend in ec2_backends[ACCOUNT].values():
                        remove_made_images(backend)
                        backend.reservations.clear()
                case _:
                    raise ValueError(verb)
        return {}

    def _shut_down(self, instance_id: str) -> None:
        with self._changing:
            for backend in ec2_backends[ACCOUNT].values():
                for instance in backend.all_instances():
                    if instance.id == instance_id and instance_id not in self._dead:
                        backend.terminate_instances([instance_id])
                        instance.state_reason.code = "Client.InstanceInitiatedShutdown"
                        self._dead.add(instance_id)

    def _mend(self) -> None:
        self._rules, self._hide_s = [], 0.0
        self._mended.set()
        self._mended = threading.Event()

    def _clear(self) -> None:
        self._rules: list[dict[str, Any]] = []
        self._calls: list[Form] = []
        self._permissions: set[str] = set()
        self._tokens: dict[tuple[str, str], tuple[str, tuple[str, list[Any], bytes]]] = {}
        self._born: dict[str, float] = {}
        self._dead: set[str] = set()
        self._groups: set[str] = set()
        self._consoles: dict[str, str] = {}
        self._quotas: dict[str, float] = {}
        self._prices: dict[tuple[str, str], str] = {}
        self._parameters: dict[str, str] = {}
        self._reservations: dict[str, dict[str, str]] = {}
        self._hide_s = 0.0
        self._images_are = "available"

    def _describe_reservations(self, form: Form) -> bytes:
        wanted = {v for k, v in form.items() if k.startswith("Filter.1.Value")}
        items = "".join(
            "<item>" + "".join(f"<{k}>{escape(str(v))}</{k}>" for k, v in each.items()) + "</item>"
            for id_, each in self._reservations.items()
            if not wanted or id_ in wanted
        )
        inside = f"<capacityReservationSet>{items}</capacityReservationSet>"
        return _reply("DescribeCapacityReservations", inside)

    def _quota(self, asked: dict[str, str]) -> tuple[str, list[Any], bytes]:
        value = self._quotas.get(asked["QuotaCode"], 64.0)
        said = {"Quota": {"QuotaCode": asked["QuotaCode"], "Value": value}}
        return "200 OK", [("Content-Type", "application/x-amz-json-1.1")], json.dumps(said).encode()

    def _create_group(self, form: Form) -> bytes:
        name = form["GroupName"]
        if name in self._groups:
            raise Refused("InvalidPlacementGroup.Duplicate", f"The group '{name}' exists")
        self._groups.add(name)
        return _reply("CreatePlacementGroup", "<return>true</return>")

    def _console_output(self, form: Form) -> bytes:
        id_ = form["InstanceId"]
        text = base64.b64encode(self._consoles.get(id_, "").encode()).decode()
        inside = f"<instanceId>{id_}</instanceId><output>{text}</output>"
        return _reply("GetConsoleOutput", inside)


_CHANGES: dict[str, Callable[[Ec2Faults, dict[str, Any], Form], tuple[str, list[Any], bytes]]] = {
    "RunInstances": Ec2Faults._run_instances,
    "TerminateInstances": Ec2Faults._terminate_instances,
    "StartInstances": Ec2Faults._switch,
    "StopInstances": Ec2Faults._switch,
}
"""Of machines."""
_OWN: dict[str, Callable[[Ec2Faults, Form], bytes]] = {
    "DescribeCapacityReservations": Ec2Faults._describe_reservations,
    "CreatePlacementGroup": Ec2Faults._create_group,
    "GetConsoleOutput": Ec2Faults._console_output,
}


def _profiles() -> set[str]:
    return {found.arn for found in iam_backends[ACCOUNT]["aws"].instance_profiles.values()}


def body_of(environ: dict[str, Any]) -> dict[str, str]:
    """Of a call in JSON."""
    found: dict[str, str] = json.loads(environ["wsgi.input"].getvalue())
    return found


def _reply(action: str, inside: str) -> bytes:
    return (
        f'<{action}Response xmlns="{NAMESPACE}"><requestId>r-1</requestId>{inside}</{action}Response>'
    ).encode()


def permissions_of(service: str, form: Form) -> set[str]:
    """By the service authorization reference of AWS."""
    action = form["Action"].removesuffix("Batch")
    if action == "GetCallerIdentity":
        return set()  # which needs none
    found = {f"{service}:{action}"}
    if action == "RunInstances":
        if any(key.startswith("TagSpecification.") for key in form):
            found.add("ec2:CreateTags")
        if any(key.startswith("IamInstanceProfile.") for key in form):
            found.add("iam:PassRole")
    if action in ("CreatePlacementGroup", "CreateImage") and any(
        key.startswith("TagSpec") for key in form
    ):
        found.add("ec2:CreateTags")
    return found


def _region(environ: Mapping[str, Any]) -> str:
    return _signed_for(environ)[0]


def _service(environ: Mapping[str, Any]) -> str:
    return _signed_for(environ)[1]


def _signed_for(environ: Mapping[str, Any]) -> tuple[str, str]:
    """Region and service."""
    parts = environ.get("HTTP_AUTHORIZATION", "").split("/")
    return (parts[2], parts[3]) if len(parts) > 3 else ("us-east-1", "ec2")


def _json(start: Start, answer: Any) -> list[bytes]:
    body = json.dumps(answer).encode()
    start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


def _error(environ: dict[str, Any], start: Start, refused: Refused) -> list[bytes]:
    """As the service that was asked words it: XML, or JSON."""
    if "HTTP_X_AMZ_TARGET" in environ:
        kind = "application/x-amz-json-1.1"
        text = json.dumps({"__type": refused.code, "message": refused.message})
    else:
        kind = "text/xml"
        text = (
            '<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error>'
            f"<Code>{refused.code}</Code><Message>{escape(refused.message)}</Message>"
            "</Error></Errors><RequestID>r-0</RequestID></Response>"
        )
    body = text.encode()
    status = _STATUS.get(refused.status, f"{refused.status} Error")
    start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]
