"""Two local Ray nodes for tests of what crosses machines."""


def two_nodes(tries: int = 3):
    """A cluster; Ray gives a node 30 s to start, which a busy machine may exceed."""
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100_000_000}
    cluster = Cluster()
    try:
        cluster.add_node(include_dashboard=False, **small)
        cluster.add_node(**small)
    except Exception:
        cluster.shutdown()
        if tries == 1:
            raise
        return two_nodes(tries - 1)
    return cluster
