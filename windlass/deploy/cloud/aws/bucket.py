"""A bucket of S3 for Terraform's states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.base.errors import ProviderError
from windlass.deploy.cloud.aws.session import AwsSession, code_of
from windlass.deploy.cloud.state_bucket import LABELS

_ANY = "us-east-1"
"""Where a bucket is looked for whose region is not known: S3 says where it is."""


class AwsBucket:
    def __init__(self, name: str, *, region: str = "", profile: str = "") -> None:
        self.name = name
        self._region = region or _ANY
        self._profile = profile
        self._aws = AwsSession(region=self._region, profile=profile)
        self._s3 = self._aws.client("s3")

    def exists(self) -> bool:
        return self._place() is not None

    def make(self) -> None:
        bucket = {"Bucket": self.name}
        with self._aws.doing(f"make bucket {self.name}"):
            if not self.exists():
                place = {"LocationConstraint": self._region}
                more = {} if self._region == _ANY else {"CreateBucketConfiguration": place}
                self._s3.create_bucket(**bucket, **more)
            elif not self._is_ours():
                return
            tags = [{"Key": key, "Value": value} for key, value in LABELS.items()]
            self._s3.put_bucket_tagging(**bucket, Tagging={"TagSet": tags})
            closed = (
                *("BlockPublicAcls", "IgnorePublicAcls"),
                *("BlockPublicPolicy", "RestrictPublicBuckets"),
            )
            self._s3.put_public_access_block(
                **bucket, PublicAccessBlockConfiguration=dict.fromkeys(closed, True)
            )
            self._s3.put_bucket_versioning(**bucket, VersioningConfiguration={"Status": "Enabled"})
            rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            self._s3.put_bucket_encryption(
                **bucket, ServerSideEncryptionConfiguration={"Rules": [rule]}
            )

    def backend(self, folder: str) -> Mapping[str, Any]:
        place = {
            "bucket": self.name,
            "key": f"{folder}/terraform.tfstate",
            "region": self._place() or self._region,
            "encrypt": True,
            "use_lockfile": True,
        }
        return {"s3": {**place, **({"profile": self._profile} if self._profile else {})}}

    def read(self, key: str) -> bytes | None:
        with self._aws.doing(f"read {key} in bucket {self.name}"):
            try:
                found = self._s3.get_object(Bucket=self.name, Key=key)["Body"].read()
            except self._aws.refused as error:
                if code_of(error) in ("NoSuchKey", "NoSuchBucket"):
                    return None
                raise
            return bytes(found)

    def write(self, key: str, data: bytes) -> None:
        with self._aws.doing(f"write {key} to bucket {self.name}"):
            self._s3.put_object(Bucket=self.name, Key=key, Body=data, ServerSideEncryption="AES256")

    def remove(self, prefix: str) -> None:
        for key in self.keys(prefix):
            with self._aws.doing(f"remove {key} from bucket {self.name}"):
                self._s3.delete_object(Bucket=self.name, Key=key)

    def keys(self, prefix: str) -> list[str]:
        with self._aws.doing(f"list bucket {self.name}"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.name, Prefix=prefix
            )
            return [found["Key"] for page in pages for found in page.get("Contents", ())]

    def _place(self) -> str | None:
        """The region that it is in; None: there is none."""
        with self._aws.doing(f"use bucket {self.name}"):
            try:
                reply = self._s3.head_bucket(Bucket=self.name)
            except self._aws.refused as error:
                if code_of(error) in ("404", "NoSuchBucket"):
                    return None
                if code_of(error) in ("403", "AccessDenied"):
                    raise ProviderError(
                        f"Bucket {self.name} belongs to somebody else, or you may not use it: choose another name, or "
                        "ask for s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject"
                    ) from None
                raise
            headers = reply["ResponseMetadata"]["HTTPHeaders"]
            return str(headers.get("x-amz-bucket-region") or self._region)

    def _is_ours(self) -> bool:
        try:
            tags = self._s3.get_bucket_tagging(Bucket=self.name)["TagSet"]
        except self._aws.refused:
            return False
        return {each["Key"]: each["Value"] for each in tags}.items() >= LABELS.items()
