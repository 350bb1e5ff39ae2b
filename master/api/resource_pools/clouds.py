"""What the published API says of pools of clouds: their first section of that cloud. Secrets are in none of it."""

from __future__ import annotations

from typing_extensions import TypedDict

from master.config import ResolvedPool
from provisioner.sections.aws import AwsSection
from provisioner.sections.gcp import GcpSection
from provisioner.types import Market


class AwsTag(TypedDict):
    key: str
    value: str


class AwsDetail(TypedDict):
    region: str
    """Empty: that of the master's environment."""
    instanceType: str
    imageId: str
    """Empty: an Ubuntu, looked up when machines are bought."""
    rootVolumeSize: int
    instanceName: str
    tagKey: str
    tagValue: str
    customTags: list[AwsTag]
    sshKeyName: str
    publicIp: bool
    subnetId: str
    securityGroupId: str
    iamInstanceProfileArn: str
    spotEnabled: bool
    spotMaxPrice: str


class GcpDetail(TypedDict):
    project: str
    """Empty: that of the credentials."""
    zone: str
    """With commas, if there are several. Empty: all of the region, or that of the master's machine."""
    machineType: str
    gpuType: str
    """Added to the machine; empty: none but those that the type brings."""
    gpuNum: int
    bootDiskSize: int
    bootDiskSourceImage: str
    namePrefix: str
    labelKey: str
    labelValue: str
    network: str
    subnetwork: str
    externalIp: bool
    networkTags: list[str]
    serviceAccountEmail: str
    serviceAccountScopes: list[str]
    operationTimeoutPeriod: float
    """Seconds."""
    preemptible: bool


def aws_detail(pool: ResolvedPool | None) -> AwsDetail | None:
    section = next((x for x in pool.providers if isinstance(x, AwsSection)), None) if pool else None
    if section is None:
        return None
    network = section.network_interface
    return {
        "region": section.region or "",
        "instanceType": section.instance_type,
        "imageId": section.image_id,
        "rootVolumeSize": section.root_volume_size,
        "instanceName": section.instance_name,
        "tagKey": section.tag_key,
        "tagValue": section.tag_value,
        "customTags": [{"key": tag.key, "value": tag.value} for tag in section.custom_tags],
        "sshKeyName": section.ssh_key_name,
        "publicIp": network.public_ip,
        "subnetId": network.subnet_id,
        "securityGroupId": network.security_group_id,
        "iamInstanceProfileArn": section.iam_instance_profile_arn,
        "spotEnabled": Market.SPOT in section.bought_markets,
        "spotMaxPrice": section.spot_max_price,
    }


def gcp_detail(pool: ResolvedPool | None) -> GcpDetail | None:
    section = next((x for x in pool.providers if isinstance(x, GcpSection)), None) if pool else None
    if section is None:
        return None
    network, account = section.network_interface, section.service_account
    gpu, gpus = section.instance_type.added
    return {
        "project": section.project,
        "zone": ", ".join(section.all_zones),
        "machineType": section.instance_type.machine_type,
        "gpuType": gpu,
        "gpuNum": gpus,
        "bootDiskSize": section.boot_disk_size,
        "bootDiskSourceImage": section.boot_disk_source_image,
        "namePrefix": section.name_prefix,
        "labelKey": section.label_key,
        "labelValue": section.label_value,
        "network": network.network,
        "subnetwork": network.subnetwork,
        "externalIp": network.external_ip,
        "networkTags": list(section.network_tags),
        "serviceAccountEmail": account.email,
        "serviceAccountScopes": list(account.scopes),
        "operationTimeoutPeriod": section.operation_timeout_period.total_seconds(),
        "preemptible": Market.SPOT in section.bought_markets,
    }
