"""The calls that the provider makes, as IAM names them. Its tests compare this with what they see called."""

from __future__ import annotations

from windlass.base.permissions import Permission, Reach

PERMISSIONS = (
    Permission(action="ec2:DescribeAvailabilityZones", why="learn the zones of the region"),
    Permission(action="ec2:DescribeInstanceTypes", why="learn GPUs, CPUs and memory of types"),
    Permission(action="ec2:DescribeInstanceTypeOfferings", why="learn which zone has which type"),
    Permission(action="ec2:DescribeSubnets", why="find a subnet in each zone"),
    Permission(action="ec2:DescribeImages", why="find root device and architecture of the image"),
    Permission(action="ec2:DescribeSpotPriceHistory", why="learn what spot machines cost"),
    Permission(action="servicequotas:GetServiceQuota", why="ask for no more than quotas have left"),
    Permission(action="ec2:DescribeInstances", why="list the machines"),
    Permission(action="ssm:GetParameters", why="find the image, where none is named"),
    Permission(action="ec2:RunInstances", why="launch machines", reach=Reach.LAUNCH),
    Permission(action="ec2:CreateTags", why="tag what is launched", reach=Reach.TAG_AT_LAUNCH),
    Permission(action="iam:PassRole", why="give machines their role", reach=Reach.AGENT_ROLE),
    Permission(action="ec2:TerminateInstances", why="end machines", reach=Reach.OWN_MACHINES),
    Permission(
        action="ec2:GetConsoleOutput", why="show why a boot failed", reach=Reach.OWN_MACHINES
    ),
    Permission(
        action="ec2:StopInstances",
        why="stop idle machines",
        reach=Reach.OWN_MACHINES,
        feature="stopped_agents",
    ),
    Permission(
        action="ec2:StartInstances",
        why="start stopped machines",
        reach=Reach.OWN_MACHINES,
        feature="stopped_agents",
    ),
    Permission(
        action="ec2:DescribeCapacityReservations",
        why="see what reservations have left",
        feature="reservations",
    ),
    Permission(
        action="ec2:CreatePlacementGroup", why="place machines close", feature="placement_group"
    ),
    Permission(
        action="sqs:ReceiveMessage", why="hear of interruptions", feature="interruption_queue"
    ),
    Permission(
        action="sqs:DeleteMessage", why="forget heard interruptions", feature="interruption_queue"
    ),
    Permission(action="sts:AssumeRole", why="act in another account", feature="assume_role"),
    Permission(
        action="ec2:CreateImage",
        why="make images of machines (det fleet bake)",
        reach=Reach.MAKE_IMAGE,
        feature="bake",
    ),
    Permission(action="ec2:DescribeSnapshots", why="find what images left", feature="bake"),
    Permission(
        action="ec2:DeregisterImage",
        why="remove images that failed",
        reach=Reach.OWN_IMAGES,
        feature="bake",
    ),
    Permission(
        action="ec2:DeleteSnapshot",
        why="remove images that failed",
        reach=Reach.OWN_IMAGES,
        feature="bake",
    ),
    Permission(
        action="pricing:GetProducts",
        why="learn what machines cost today (prices.refresh)",
        reach=Reach.EVERYWHERE,
        feature="price_refresh",
    ),
)
