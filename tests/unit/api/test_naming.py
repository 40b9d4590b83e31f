"""Generated names."""

from __future__ import annotations

from spinney.api import naming


def test_names_of_a_set_with_a_scaling_group() -> None:
    assert naming.podclique("d", 0, "router") == "d-0-router"
    assert naming.scaling_group("d", 0, "prefill") == "d-0-prefill"
    assert naming.scaling_group_podclique("d", 0, "prefill", 1, "pw") == "d-0-prefill-1-pw"
    assert naming.scaling_group_replica("d", 0, "prefill", 0) == "d-0-prefill-0"
    assert naming.base_gang("d", 0) == "d-0"
    assert naming.pod_prefix("d-0-router") == "d-0-router-"
    assert naming.pod_hostname("d-0-router", 2) == "d-0-router-2"


def test_scaled_gangs_are_counted_from_min_available() -> None:
    assert naming.scaled_gang("d", 0, "prefill", 1, min_available=1) == "d-0-prefill-0"
    assert naming.scaled_gang("d", 0, "prefill", 4, min_available=2) == "d-0-prefill-2"


def test_names_of_what_surrounds_the_pods() -> None:
    assert naming.headless_service("d", 1) == "d-1"
    assert naming.headless_service_host("d", 1, "ns") == "d-1.ns.svc.cluster.local"
    assert naming.role("d") == "grove.io:pcs:d"
    assert naming.service_account("d") == "d"
    assert naming.token_secret("d") == "d-ic-sat"
    assert naming.shared_claim("d-0", "gpu") == "d-0-all-gpu"
    assert naming.replica_claim("d", 3, "gpu") == "d-3-gpu"
    assert naming.compute_domain("d", 0, "g") == "d-0-g"
    assert naming.grouped_podgroup("job", "u-1") == "pg-job-u-1"
