"""Generated names."""

from __future__ import annotations

from spinney.api import generated_names


def test_names_of_a_set_with_a_scaling_group() -> None:
    assert generated_names.podclique("d", 0, "router") == "d-0-router"
    assert generated_names.scaling_group("d", 0, "prefill") == "d-0-prefill"
    assert generated_names.scaling_group_podclique("d", 0, "prefill", 1, "pw") == "d-0-prefill-1-pw"
    assert generated_names.scaling_group_replica("d", 0, "prefill", 0) == "d-0-prefill-0"
    assert generated_names.base_gang("d", 0) == "d-0"
    assert generated_names.pod_prefix("d-0-router") == "d-0-router-"
    assert generated_names.pod_hostname("d-0-router", 2) == "d-0-router-2"


def test_scaled_gangs_are_counted_from_min_available() -> None:
    assert generated_names.scaled_gang("d", 0, "prefill", 1, min_available=1) == "d-0-prefill-0"
    assert generated_names.scaled_gang("d", 0, "prefill", 4, min_available=2) == "d-0-prefill-2"


def test_names_of_what_surrounds_the_pods() -> None:
    assert generated_names.headless_service("d", 1) == "d-1"
    assert generated_names.headless_service_host("d", 1, "ns") == "d-1.ns.svc.cluster.local"
    assert generated_names.role("d") == "grove.io:pcs:d"
    assert generated_names.service_account("d") == "d"
    assert generated_names.token_secret("d") == "d-ic-sat"
    assert generated_names.shared_claim("d-0", "gpu") == "d-0-all-gpu"
    assert generated_names.replica_claim("d", 3, "gpu") == "d-3-gpu"
    assert generated_names.compute_domain("d", 0, "g") == "d-0-g"
