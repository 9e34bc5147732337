"""Stand-in for the registry of Dynamo backends."""


def list_backends(exclude_tags=()):
    return ["eager", "inductor", "npu"]
