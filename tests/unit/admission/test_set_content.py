"""What a PodCliqueSet may look like apart from topology: every rule with its field and its words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spinney.core.admission.podcliqueset.startup_order import find_cycle
from spinney.core.expansion.backends import Capabilities
from unit.admission.admission_kit import ON, Json, clique, errors, group, pcs, warnings

CLIQUE = "spec.template.cliques[0]"
GROUP = "spec.template.podCliqueScalingGroups[0]"
EXPLICIT: dict[str, Any] = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
REQUESTS = {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}


def scaled(least: int | None, most: int) -> Json:
    return {"maxReplicas": most} if least is None else {"minReplicas": least, "maxReplicas": most}


def env(*names: str) -> Json:
    return {"containers": [{"name": "main", "env": [{"name": name, "value": "x"} for name in names]}]}


def _main(**fields: Any) -> Json:
    return {"containers": [{"name": "main", **fields}]}


def sharing(*entries: Json, **more: Any) -> Json:
    claims = [{"name": "own", "templateSpec": REQUESTS}]
    cliques, groups = (clique("w"), clique("x")), (group("g", "x"),)
    return pcs(*cliques, groups=groups, resourceClaimTemplates=claims, resourceSharing=list(entries), **more)


ROWS: dict[str, tuple[Json, list[str]]] = {
    "negative replicas": (
        pcs() | {"spec": {**pcs()["spec"], "replicas": -1}},
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "more pods than any cluster has": (
        pcs(clique(replicas=50_000, minAvailable=1))
        | {"spec": {**pcs(clique(replicas=50_000))["spec"], "replicas": 3}},
        ["spec.replicas: Invalid value: 3: the set would have 150000 pods, at most 100000 are allowed"],
    ),
    "more PodCliques than can be looked at": (
        pcs(clique("w"), clique("x"), groups=(group("g", "x", replicas=4_000),))
        | {"spec": {**pcs(clique("w"), clique("x"), groups=(group("g", "x", replicas=4_000),))["spec"], "replicas": 2}},
        ["spec.replicas: Invalid value: 2: the set would have 8002 PodCliques, at most 5000 are allowed"],
    ),
    "no cliques": (
        pcs() | {"spec": {"template": {"cliques": []}}},
        ["spec.template.cliques: Required value: at least one PodClique must be defined"],
    ),
    "a clique twice": (pcs(clique("w"), clique("w")), ['spec.template.cliques[1].name: Duplicate value: "w"']),
    "a role twice": (
        pcs(clique("v", roleName="r"), clique("w", roleName="r")),
        ['spec.template.cliques[1].spec.roleName: Duplicate value: "r"'],
    ),
    "negative clique replicas": (
        pcs(clique(replicas=-1, minAvailable=1)),
        [
            f"{CLIQUE}.spec.replicas: Invalid value: -1: must be greater than 0",
            f"{CLIQUE}.spec.minAvailable: Invalid value: 1: "
            "minAvailable must not be greater than replicas, which is -1",
        ],
    ),
    "minAvailable of nothing": (
        pcs(clique(minAvailable=0)),
        [f"{CLIQUE}.spec.minAvailable: Invalid value: 0: must be greater than 0"],
    ),
    "minAvailable above replicas": (
        pcs(clique(minAvailable=3)),
        [f"{CLIQUE}.spec.minAvailable: Invalid value: 3: minAvailable must not be greater than replicas, which is 2"],
    ),
    "scaling below minAvailable": (
        pcs(clique(minAvailable=2, autoScalingConfig=scaled(1, 4))),
        [
            f"{CLIQUE}.spec.autoScalingConfig.minReplicas: Invalid value: 1: "
            "must be greater than or equal to minAvailable, which is 2"
        ],
    ),
    "scaling to less than the minimum and the replicas": (
        pcs(clique(autoScalingConfig=scaled(2, 1))),
        [
            f"{CLIQUE}.spec.autoScalingConfig.maxReplicas: Invalid value: 1: "
            "must be greater than or equal to minReplicas, which is 2",
            f"{CLIQUE}.spec.autoScalingConfig.maxReplicas: Invalid value: 1: "
            "must be greater than or equal to replicas, which is 2",
        ],
    ),
    "a group member that scales alone": (
        pcs(clique(autoScalingConfig=scaled(None, 4)), groups=(group("g", "w"),)),
        [
            f"{CLIQUE}.spec.autoScalingConfig: Forbidden: "
            "must not be set: the clique is scaled with its PodCliqueScalingGroup 'g'"
        ],
    ),
    "a group without replicas": (
        pcs(groups=(group("g", "w", replicas=0),)),
        [
            f"{GROUP}.replicas: Invalid value: 0: must be greater than 0",
            f"{GROUP}.minAvailable: Invalid value: 1: minAvailable must not be greater than replicas, which is 0",
        ],
    ),
    "a group with scaling below its minimum": (
        pcs(groups=(group("g", "w", replicas=3, minAvailable=2, scaleConfig=scaled(1, 2)),)),
        [
            f"{GROUP}.scaleConfig.minReplicas: Invalid value: 1: "
            "must be greater than or equal to minAvailable, which is 2",
            f"{GROUP}.scaleConfig.maxReplicas: Invalid value: 2: must be greater than or equal to replicas, which is 3",
        ],
    ),
    "a group of nobody": (
        pcs(groups=(group("g"),)),
        [f"{GROUP}.cliqueNames: Required value: at least one clique must be named"],
    ),
    "a group of strangers": (
        pcs(groups=(group("g", "x"),)),
        [f'{GROUP}.cliqueNames[0]: Invalid value: "x": no such clique; the cliques are [w]'],
    ),
    "a group that names a clique twice": (
        pcs(groups=(group("g", "w", "w"),)),
        [f'{GROUP}.cliqueNames[1]: Duplicate value: "w"'],
    ),
    "a clique in two groups": (
        pcs(groups=(group("g", "w"), group("h", "w"))),
        [
            'spec.template.podCliqueScalingGroups[1].cliqueNames[0]: Invalid value: "w": '
            "clique is already in PodCliqueScalingGroup 'g', and may be in one only"
        ],
    ),
    "a group twice": (
        pcs(clique("w"), clique("x"), groups=(group("g", "w"), group("g", "x"))),
        ['spec.template.podCliqueScalingGroups[1].name: Duplicate value: "g"'],
    ),
    "no termination delay at all": (
        pcs(terminationDelay="0s"),
        ['spec.template.terminationDelay: Invalid value: "0s": must be greater than 0'],
    ),
    "a delay that is no duration": (
        pcs(terminationDelay="soon"),
        [
            'spec.template.terminationDelay: Invalid value: "soon": must be a duration, for instance 4h: '
            'time: invalid duration "soon"'
        ],
    ),
    "a node by name": (
        pcs(clique(pod={"nodeName": "n"})),
        [f'{CLIQUE}.spec.podSpec.nodeName: Invalid value: "n": must not be set'],
    ),
    "spread constraints": (
        pcs(clique(pod={"topologySpreadConstraints": [{"maxSkew": 1}]})),
        [f"{CLIQUE}.spec.podSpec.topologySpreadConstraints: Invalid value: must not be set"],
    ),
    "no containers": (
        pcs(clique(pod={"containers": []})),
        [f"{CLIQUE}.spec.podSpec.containers: Required value: at least one container must be given"],
    ),
    "a container without a name": (
        pcs(clique(pod={"containers": [{"image": "i"}]})),
        [f"{CLIQUE}.spec.podSpec.containers[0].name: Required value: must name the container"],
    ),
    "a container name twice": (
        pcs(clique(pod={"initContainers": [{"name": "main"}]})),
        [f'{CLIQUE}.spec.podSpec.containers[0].name: Duplicate value: "main"'],
    ),
    "a bad variable": (
        pcs(clique(pod=env("A=B"))),
        [
            f'{CLIQUE}.spec.podSpec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable '
            "name must consist only of printable ASCII characters other than '='"
        ],
    ),
    "a variable twice": (
        pcs(clique(pod=env("A", "B", "A"))),
        [f'{CLIQUE}.spec.podSpec.containers[0].env[2].name: Duplicate value: "A"'],
    ),
    "a variable without a name": (
        pcs(clique(pod=env(""))),
        [f"{CLIQUE}.spec.podSpec.containers[0].env[0].name: Required value: must name the variable"],
    ),
    "a start after itself": (
        pcs(clique("w", startsAfter=["w"]), **EXPLICIT),
        [f'{CLIQUE}.spec.startsAfter[0]: Invalid value: "w": clique must not start after itself'],
    ),
    "a start after nobody": (
        pcs(clique("w", startsAfter=[""]), **EXPLICIT),
        [f"{CLIQUE}.spec.startsAfter[0]: Required value: must name a clique"],
    ),
    "a start after a stranger": (
        pcs(clique("w", startsAfter=["x"]), **EXPLICIT),
        [f'{CLIQUE}.spec.startsAfter[0]: Invalid value: "x": no such clique; the cliques are [w]'],
    ),
    "a start after the same twice": (
        pcs(clique("w", startsAfter=["x", "x"]), clique("x"), **EXPLICIT),
        [f'{CLIQUE}.spec.startsAfter[1]: Duplicate value: "x"'],
    ),
    "a circle": (
        pcs(clique("a", startsAfter=["b"]), clique("b", startsAfter=["c"]), clique("c", startsAfter=["a"]), **EXPLICIT),
        [
            'spec.template.cliques: Invalid value: "a -> b -> c -> a": clique must not have circular dependencies',
        ],
    ),
    "a claim template without requests": (
        pcs(resourceClaimTemplates=[{"name": "a", "templateSpec": {}}]),
        [
            "spec.template.resourceClaimTemplates[0].templateSpec.spec.devices.requests: Required value: "
            "at least one device request must be given"
        ],
    ),
    "a claim template twice": (
        pcs(resourceClaimTemplates=[{"name": "a", "templateSpec": REQUESTS}] * 2),
        ['spec.template.resourceClaimTemplates[1].name: Duplicate value: "a"'],
    ),
    "an unknown scope": (
        sharing({"name": "own", "scope": "Some"}),
        [
            'spec.template.resourceSharing[0].scope: Unsupported value: "Some": '
            'supported values: "AllReplicas", "PerReplica"'
        ],
    ),
    "a claim shared twice": (
        sharing({"name": "own", "scope": "AllReplicas"}, {"name": "own", "scope": "PerReplica"}),
        ['spec.template.resourceSharing[1].name: Duplicate value: "own"'],
    ),
    "a namespace for a template of the set": (
        sharing({"name": "own", "scope": "AllReplicas", "namespace": "other"}),
        [
            'spec.template.resourceSharing[0].namespace: Invalid value: "other": must be empty: '
            "'own' is one of the resourceClaimTemplates of this set"
        ],
    ),
    "an empty filter": (
        sharing({"name": "own", "scope": "AllReplicas", "filter": {}}),
        ["spec.template.resourceSharing[0].filter: Required value: must name at least one child"],
    ),
    "a filter for strangers": (
        sharing(
            {
                "name": "own",
                "scope": "AllReplicas",
                "filter": {"childCliqueNames": ["z"], "childScalingGroupNames": ["y"]},
            }
        ),
        [
            'spec.template.resourceSharing[0].filter.childCliqueNames[0]: Invalid value: "z": '
            "no such child; the children are [w x]",
            'spec.template.resourceSharing[0].filter.childScalingGroupNames[0]: Invalid value: "y": '
            "no such child; the children are [g]",
        ],
    ),
    "a filter on a clique": (
        pcs(
            {
                **clique(),
                "resourceSharing": [
                    {"name": "a", "scope": "PerReplica", "filter": {"childCliqueNames": ["w"]}},
                ],
            }
        ),
        [f"{CLIQUE}.resourceSharing[0].filter: Forbidden: must not be set: a clique has no children to choose from"],
    ),
    "schedulers of two kinds": (
        pcs(
            clique("v", pod={"schedulerName": "kai-scheduler"}), clique("w", pod={"schedulerName": "default-scheduler"})
        ),
        [
            'spec.template.cliques[1].spec.podSpec.schedulerName: Invalid value: "default-scheduler": '
            "the schedulerName for all pods have to be the same"
        ],
    ),
    "a scheduler that is not enabled": (
        pcs(clique(pod={"schedulerName": "volcano"})),
        [
            f'{CLIQUE}.spec.podSpec.schedulerName: Unsupported value: "volcano": '
            'supported values: "default-scheduler", "kai-scheduler"'
        ],
    ),
    "queues that conflict": (
        pcs(
            {**clique("v"), "labels": {"kai.scheduler/queue": "a"}},
            {**clique("w"), "annotations": {"kai.scheduler/queue": "b"}},
        ),
        ["spec: Invalid value: conflicting KAI queues on PodCliqueSet ns/p PodClique templates: [a b]"],
    ),
    "a queue that is not the set's": (
        pcs({**clique("w"), "labels": {"kai.scheduler/queue": "b"}}, labels={"kai.scheduler/queue": "a"}),
        ['spec: Invalid value: KAI queue on PodCliqueSet ns/p is "a" but PodClique template "w" resolves to "b"'],
    ),
    "multi-node NVLink that is off": (
        pcs(annotations={"grove.io/mnnvl-group": "a"}),
        [
            'metadata.annotations[grove.io/mnnvl-group]: Invalid value: "a": '
            "multi-node NVLink is not enabled in the operator (network.autoMNNVLEnabled)"
        ],
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_wrong_is_told_with_field_and_reason(row: str) -> None:
    workload, expected = ROWS[row]
    assert errors(workload) == expected


def test_g10_a_set_without_a_queue_is_refused_where_one_is_required() -> None:
    settings = replace(ON, requires_queue=True)
    expected = "spec: Invalid value: no KAI queue is configured on PodCliqueSet ns/p or its PodClique templates"
    assert errors(pcs(clique("v"), clique("w")), settings=settings) == [expected]
    labels = {"kai.scheduler/queue": "a"}
    assert errors(pcs(clique("v"), {**clique("w"), "labels": labels}), settings=settings) == []
    assert errors(pcs(clique("v"), labels=labels), settings=settings) == []
    assert errors(pcs(clique(pod={"schedulerName": "default-scheduler"})), settings=settings) == []


FINE: dict[str, Json] = {
    "the smallest set": pcs(),
    "the default scheduler named by some": pcs(clique("v", pod={"schedulerName": "kai-scheduler"}), clique("w")),
    "no queue at all": pcs(clique("v"), clique("w")),
    "one queue for all": pcs(
        {**clique("w"), "labels": {"kai.scheduler/queue": "a"}}, labels={"kai.scheduler/queue": "a"}
    ),
    "a diamond": pcs(
        clique("a"),
        clique("b", startsAfter=["a"]),
        clique("c", startsAfter=["a"]),
        clique("d", startsAfter=["b", "c"]),
        **EXPLICIT,
    ),
    "a shared claim of everybody": sharing({"name": "own", "scope": "AllReplicas"}),
    "a claim from elsewhere": sharing({"name": "theirs", "namespace": "other", "scope": "PerReplica"}),
    "out of multi-node NVLink": pcs(annotations={"grove.io/mnnvl-group": "none"}),
    "a scaled clique and group": pcs(
        clique("w", autoScalingConfig=scaled(2, 9)),
        clique("x"),
        groups=(group("g", "x", scaleConfig=scaled(None, 3)),),
    ),
}


@pytest.mark.parametrize("row", FINE)
def test_what_is_fine_is_admitted_without_a_word(row: str) -> None:
    assert (errors(FINE[row]), warnings(FINE[row])) == ([], [])


@pytest.mark.parametrize("row", ["a.b", "-a", "A", "a" * 64])
def test_names_of_cliques_and_groups_are_parts_of_host_names(row: str) -> None:
    assert any(error.startswith("spec.template.cliques[0].name: Invalid") for error in errors(pcs(clique(row))))
    assert any(error.startswith(f"{GROUP}.name: Invalid") for error in errors(pcs(groups=(group(row, "w"),))))


def test_the_name_of_a_set_must_do_for_its_services() -> None:
    (error,) = errors(pcs(name="1st"))
    assert error.startswith('metadata.name: Invalid value: "1st": the headless Services are named after the set: ')


def test_names_that_are_too_long_together_are_told_on_each_field() -> None:
    text = "combined resource name length 46 exceeds 45-character limit required for pod naming. Consider shortening: "
    name, part, member = "s" * 20, "g" * 10, "c" * 16
    detail = f"{text}PodCliqueSet '{name}', PodCliqueScalingGroup '{part}', PodClique '{member}'"
    assert errors(pcs(clique(member), name=name, groups=(group(part, member),))) == [
        f'metadata.name: Invalid value: "{name}": {detail}',
        f'{GROUP}.name: Invalid value: "{part}": {detail}',
        f'{CLIQUE}.name: Invalid value: "{member}": {detail}',
    ]
    assert errors(pcs(clique(member), name=name)) == []


def test_a_clique_must_not_be_named_as_another_ones_podclique_will_be() -> None:
    assert errors(pcs(clique("w"), clique("g-0-w"), groups=(group("g", "w"),))) == [
        'spec.template.cliques[1].name: Invalid value: "g-0-w": '
        "its PodClique would have the name of PodClique 'w' in PodCliqueScalingGroup 'g'"
    ]
    assert errors(pcs(clique("w"), clique("g-x-w"), groups=(group("g", "w"),))) == []


def test_labels_and_annotations_have_the_syntax_of_kubernetes() -> None:
    found = errors(pcs({**clique(), "labels": {"a b": "c", "d": "-"}, "annotations": {"e f": ""}}))
    assert [error.partition(": Invalid value:")[0] for error in found] == [
        f"{CLIQUE}.labels",
        f"{CLIQUE}.labels[d]",
        f"{CLIQUE}.annotations",
    ]


def test_an_order_that_nobody_asks_for_is_warned_of() -> None:
    assert warnings(pcs(clique("v"), clique("w", startsAfter=["v"]))) == [
        "spec.template.cliques[1].spec.startsAfter is ignored unless cliqueStartupType is CliqueStartupTypeExplicit"
    ]


def test_a_restart_policy_that_is_ignored_is_warned_of() -> None:
    assert warnings(pcs(clique(pod={"restartPolicy": "Never"}))) == [
        f"{CLIQUE}.spec.podSpec.restartPolicy: restartPolicy will be ignored, it will be set to Always"
    ]


def test_fields_that_no_pod_has_are_warned_of_and_not_lost_without_a_word() -> None:
    mistyped = {"tolerationz": [], "containers": [{"name": "main", "resorces": {}, "resources": {"limit": {}}}]}
    assert warnings(pcs(clique(pod=mistyped))) == [
        f'unknown field "{CLIQUE}.spec.podSpec.tolerationz"',
        f'unknown field "{CLIQUE}.spec.podSpec.containers[0].resorces"',
        f'unknown field "{CLIQUE}.spec.podSpec.containers[0].resources.limit"',
    ]


WRONG_TYPES: dict[str, tuple[Json, str, str, str]] = {
    "variables as a map": (_main(env={"A": "b"}), "containers[0].env", "array", "object"),
    "a number as the value of a variable": (
        _main(env=[{"name": "A", "value": 1}]),
        "containers[0].env[0].value",
        "string",
        "integer",
    ),
    "a command line in one piece": (_main(command="serve --all"), "containers[0].command", "array", "string"),
    "an image that is a word of YAML": (_main(image=True), "containers[0].image", "string", "boolean"),
    "init containers as a map": ({**_main(), "initContainers": {"a": {}}}, "initContainers", "array", "object"),
    "a container that is none": ({"containers": [*_main()["containers"], None]}, "containers[1]", "object", "null"),
    "volumes as a map": ({**_main(), "volumes": {"a": {}}}, "volumes", "array", "object"),
    "claims in one piece": ({**_main(), "resourceClaims": "a"}, "resourceClaims", "array", "string"),
    "gates in one piece": ({**_main(), "schedulingGates": "a"}, "schedulingGates", "array", "string"),
    "a node selector as a list": ({**_main(), "nodeSelector": ["a"]}, "nodeSelector", "object", "array"),
    "a scheduler that is a number": ({**_main(), "schedulerName": 5}, "schedulerName", "string", "integer"),
    "an affinity that is a word": (
        {**_main(), "affinity": {"nodeAffinity": "near"}},
        "affinity.nodeAffinity",
        "object",
        "string",
    ),
    "a term that is none": (
        {**_main(), "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [None]}}}},
        f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]",
        "object",
        "null",
    ),
}


@pytest.mark.parametrize(("pod", "field", "wanted", "found"), WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_values_of_another_type_than_a_pod_has_there_are_refused(
    pod: Json, field: str, wanted: str, found: str
) -> None:
    path = f"{CLIQUE}.spec.podSpec.{field}"
    assert f'{path}: Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"' in errors(
        pcs(clique(pod=pod))
    )


def test_values_that_are_null_or_whole_numbers_are_as_good_as_the_api_server_takes_them() -> None:
    assert errors(pcs(clique(pod={**_main(env=None), "volumes": None, "terminationGracePeriodSeconds": 30.0}))) == []


def test_amounts_that_cannot_be_read_are_refused() -> None:
    asked = {
        "requests": {"cpu": "one", "memory": True, "nvidia.com/gpu": 8},
        "limits": {"memory": "16 GB", "cpu": None},
    }
    found = errors(pcs(clique(pod={"containers": [{"name": "main", "resources": asked}]})))
    wanted = "must be a quantity, for instance 2, 500m or 16Gi"
    where = f"{CLIQUE}.spec.podSpec.containers[0].resources"
    assert found == [
        f'{where}.requests[cpu]: Invalid value: "one": {wanted}',
        f"{where}.requests[memory]: Invalid value: true: {wanted}",
        f'{where}.limits[memory]: Invalid value: "16 GB": {wanted}',
    ]


def test_circles_are_found_in_time_that_is_linear() -> None:
    chain = {str(index): [str(index + 1)] for index in range(20_000)} | {"20000": []}
    assert find_cycle(chain) == []
    assert find_cycle(chain | {"20000": ["19998"]}) == ["19998", "19999", "20000", "19998"]


def test_c1_multi_node_nvlink_may_be_switched_on() -> None:
    on = replace(ON, mnnvl_enabled=True)
    assert errors(pcs(annotations={"grove.io/mnnvl-group": "a"}), settings=on) == []
    assert errors(pcs(annotations={"grove.io/mnnvl-group": "A"}), settings=on) != []


LIMITED = {"pack": {"required": "rack", "preferred": "host"}}


def backends(**capabilities: Any) -> Any:
    return replace(ON, backends={"kai-scheduler": Capabilities(**capabilities)})


def test_g10_a_required_constraint_needs_a_scheduler_that_honours_it() -> None:
    workload = pcs(
        clique("w", {"packDomain": "host"}),
        constraint=LIMITED,
        groups=(group("g", "w", constraint={"packDomain": "rack"}),),
    )
    text = "kai-scheduler scheduler backend does not support topologyConstraint on"
    assert errors(workload, settings=backends(gang=True)) == [
        f'spec.template.topologyConstraint.pack.required: Invalid value: "rack": {text} PodCliqueSet',
        f'{GROUP}.topologyConstraint.packDomain: Invalid value: "rack": {text} PodCliqueScalingGroup "g"',
        f'{CLIQUE}.topologyConstraint.packDomain: Invalid value: "host": {text} PodClique "w"',
    ]


def test_g10_the_default_scheduler_refuses_required_constraints() -> None:
    workload = pcs(clique(pod={"schedulerName": "default-scheduler"}), constraint={"packDomain": "rack"})
    (error,) = errors(workload)
    assert "default-scheduler scheduler backend does not support topologyConstraint" in error


def test_g10_a_preferred_constraint_that_is_ignored_is_warned_of() -> None:
    soft = pcs(constraint={"pack": {"preferred": "host"}})
    assert errors(soft, settings=backends(required_topology=True)) == []
    assert warnings(soft, settings=backends(required_topology=True)) == [
        "spec.template.topologyConstraint.pack.preferred is ignored: "
        "kai-scheduler scheduler backend does not support it"
    ]


def test_g10_k12_numa_needs_a_scheduler_that_sees_below_the_host() -> None:
    above = backends(required_topology=True, preferred_topology=True)
    text = "kai-scheduler scheduler backend cannot honour domain 'numa'; it sees nothing below 'host'"
    assert errors(pcs(constraint={"packDomain": "numa"}), settings=above) == [
        f'spec.template.topologyConstraint.packDomain: Invalid value: "numa": {text}'
    ]
    assert warnings(pcs(constraint={"pack": {"preferred": "numa"}}), settings=above) == [
        f"spec.template.topologyConstraint.pack.preferred is ignored: {text}"
    ]
    assert errors(pcs(constraint={"packDomain": "numa"})) == []
