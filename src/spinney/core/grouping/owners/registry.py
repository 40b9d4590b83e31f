"""The grouping function of each owner kind, by API group and kind, in any version."""

from __future__ import annotations

from collections.abc import Mapping

from spinney.core.grouping.group_shape import ShapeOf
from spinney.core.grouping.owner_chain import OwnerChain
from spinney.core.grouping.owners import grove, job, kubeflow, leader_worker_set, plain, ray

SHAPES: Mapping[tuple[str, str], ShapeOf] = {
    ("", "Pod"): plain.lone_pod,
    ("amlarc.azureml.com", "AmlJob"): plain.azure_job,
    ("apps", "Deployment"): plain.deployment,
    ("batch", "Job"): job.shape,
    ("batch", "CronJob"): job.of_cron_job,
    ("egx.nvidia.io", "SPOTRequest"): plain.spot_request,
    ("grove.io", "PodCliqueSet"): grove.shape,
    ("grove.io", "PodGangSet"): grove.shape,
    ("jobset.x-k8s.io", "JobSet"): job.jobset_shape,
    ("kubeflow.org", "JAXJob"): kubeflow.jax,
    ("kubeflow.org", "MPIJob"): kubeflow.mpi,
    ("kubeflow.org", "Notebook"): plain.notebook,
    ("kubeflow.org", "PyTorchJob"): kubeflow.pytorch,
    ("kubeflow.org", "TFJob"): kubeflow.tensorflow,
    ("kubeflow.org", "XGBoostJob"): kubeflow.xgboost,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set.shape,
    ("ray.io", "RayCluster"): ray.shape,
    ("ray.io", "RayJob"): ray.shape,
    ("ray.io", "RayService"): ray.shape,
    ("run.ai", "RunaiJob"): plain.runai_job,
    ("serving.knative.dev", "Service"): plain.knative_service,
}
"""All other kinds form one group with a minimum of one pod."""

PASSED_OVER = frozenset(
    {
        ("argoproj.io", "Workflow"),
        ("nvidia.com", "DynamoGraphDeployment"),
        ("run.ai", "DistributedInferenceWorkload"),
        ("run.ai", "DistributedWorkload"),
        ("run.ai", "InferenceWorkload"),
        ("run.ai", "InteractiveWorkload"),
        ("run.ai", "TrainingWorkload"),
        ("trainer.kubeflow.org", "TrainJob"),
    }
)
"""Kinds that only wrap another one: the owner below defines the group and inherits their labels and annotations."""


def effective(chain: OwnerChain) -> OwnerChain:
    """The chain up to the owner that defines the group."""
    while chain.top.group_kind in PASSED_OVER and not chain.is_bare:
        chain = chain.without_top()
    return chain


def shape_of(chain: OwnerChain) -> ShapeOf:
    return SHAPES.get(chain.top.group_kind, plain.shape)
