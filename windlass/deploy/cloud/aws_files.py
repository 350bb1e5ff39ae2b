"""What only AWS knows of an existing FSx for Lustre: the name that it is mounted by."""

from __future__ import annotations

from windlass.base.errors import NotFound
from windlass.deploy.cloud.aws_options import AwsOptions
from windlass.deploy.cloud.aws_session import AwsSession, code_of


def with_mount_name(options: AwsOptions) -> AwsOptions:
    """Asks AWS where an existing FSx is named and its mount name is not."""
    if not options.fsx_id or options.fsx_mount_name:
        return options
    name = _mount_name(options.fsx_id, region=options.region, profile=options.profile)
    return options.model_copy(update={"fsx_mount_name": name})


def _mount_name(id_: str, *, region: str, profile: str) -> str:
    aws = AwsSession(region=region, profile=profile)
    with aws.doing(f"find the mount name of {id_} (--fsx-mount-name says it)"):
        try:
            reply = aws.client("fsx").describe_file_systems(FileSystemIds=[id_])
        except aws.refused as error:
            if code_of(error) != "FileSystemNotFound":
                raise
            raise NotFound("FSx for Lustre", id_, f" in {region}: correct --fsx-id") from None
    for found in reply["FileSystems"]:
        if "LustreConfiguration" in found:
            return str(found["LustreConfiguration"]["MountName"])
    raise NotFound("FSx for Lustre", id_, f" in {region}: correct --fsx-id")
