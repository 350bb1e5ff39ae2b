"""The calls that the provider makes, as IAM names them. Its tests compare this with what they see called."""

from __future__ import annotations

from windlass.base.permissions import Permission, Reach, permissions

PERMISSIONS: tuple[Permission, ...] = (
    *permissions(
        {
            "ec2:DescribeAvailabilityZones": "learn the zones of the region",
            "ec2:DescribeInstanceTypes": "learn GPUs, CPUs and memory of types",
            "ec2:DescribeInstanceTypeOfferings": "learn which zone has which type",
            "ec2:DescribeSubnets": "find a subnet in each zone",
            "ec2:DescribeImages": "find root device and architecture of the image",
            "ec2:DescribeSpotPriceHistory": "learn what spot machines cost",
            "servicequotas:GetServiceQuota": "ask for no more than quotas have left",
            "ec2:DescribeInstances": "list the machines",
            "ssm:GetParameters": "find the image, where none is named",
        }
    ),
    *permissions({"ec2:RunInstances": "launch machines"}, reach=Reach.LAUNCH),
    *permissions({"ec2:CreateTags": "tag what is launched"}, reach=Reach.TAG_AT_LAUNCH),
    *permissions({"iam:PassRole": "give machines their role"}, reach=Reach.AGENT_ROLE),
    *permissions(
        {
            "ec2:TerminateInstances": "end machines",
            "ec2:GetConsoleOutput": "show why a boot failed",
        },
        reach=Reach.OWN_MACHINES,
    ),
    *permissions(
        {
            "ec2:StopInstances": "stop idle machines",
            "ec2:StartInstances": "start stopped machines",
        },
        reach=Reach.OWN_MACHINES,
        feature="stopped_agents",
    ),
    *permissions(
        {"ec2:DescribeCapacityReservations": "see what reservations have left"},
        feature="reservations",
    ),
    *permissions({"ec2:CreatePlacementGroup": "place machines close"}, feature="placement_group"),
    *permissions(
        {
            "sqs:ReceiveMessage": "receive interruption notices",
            "sqs:DeleteMessage": "delete received notices",
        },
        feature="interruption_queue",
    ),
    *permissions(
        {"iam:CreateServiceLinkedRole": "let EC2 make its role for spot machines"},
        reach=Reach.SPOT_ROLE,
        feature="spot",
    ),
    *permissions(
        {
            "kms:Decrypt": "launch machines whose disks a key of yours encrypts",
            "kms:DescribeKey": "launch machines whose disks a key of yours encrypts",
            "kms:GenerateDataKeyWithoutPlaintext": "make disks that a key of yours encrypts",
            "kms:ReEncryptFrom": "make disks of images that a key of yours encrypts",
            "kms:ReEncryptTo": "make disks of images that a key of yours encrypts",
        },
        reach=Reach.VOLUME_KEYS,
        feature="volume_keys",
    ),
    *permissions(
        {"kms:CreateGrant": "attach disks that a key of yours encrypts"},
        reach=Reach.VOLUME_GRANTS,
        feature="volume_keys",
    ),
    *permissions({"sts:AssumeRole": "act in another account"}, feature="assume_role"),
    *permissions(
        {"ec2:CreateImage": "make images of machines (det fleet bake)"},
        reach=Reach.MAKE_IMAGE,
        feature="bake",
    ),
    *permissions({"ec2:DescribeSnapshots": "find what images left"}, feature="bake"),
    *permissions(
        {
            "ec2:DeregisterImage": "remove images that failed",
            "ec2:DeleteSnapshot": "remove images that failed",
        },
        reach=Reach.OWN_IMAGES,
        feature="bake",
    ),
    *permissions(
        {"pricing:GetProducts": "learn what machines cost today (prices.refresh)"},
        reach=Reach.EVERYWHERE,
        feature="price_refresh",
    ),
)
