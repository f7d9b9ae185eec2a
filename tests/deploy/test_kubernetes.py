"""The manifests are what Kubernetes and the Dask operator take, checked against their own schemas."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from sssp_pipeline.pipeline.solving.workers.kubernetes import cluster_resource
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.yaml_file import load_workflow

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
#: The oldest release whose schema the manifests must fit: podFailurePolicy is stable in it.
KUBERNETES = "1.31"


def documents(name: str) -> list[dict]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


MANIFESTS = [
    (path.name, document)
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "workflow.yaml"
    for document in documents(path.name)
]


def schema_of(kind: str) -> dict:
    """Return the operator's schema of a kind, made strict: the API server drops a key that it does not know."""
    crds = files("dask_kubernetes") / "operator/deployment/helm/dask-kubernetes-operator/crds"
    crd = yaml.safe_load((crds / f"{kind.lower()}.yaml").read_text(encoding="utf-8"))
    [version] = crd["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    schema["properties"].update(
        apiVersion={"const": "kubernetes.dask.org/v1"}, kind={"const": kind}, metadata={}
    )
    return strict(schema)


def strict(schema):
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    known = {key: strict(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        known["additionalProperties"] = False
    return known


@pytest.fixture(scope="module")
def cluster_schema():
    return schema_of("DaskCluster")


def problems(manifest: dict, cluster_schema: dict) -> str | None:
    try:
        if manifest["kind"] == "DaskCluster":
            jsonschema.validate(manifest, cluster_schema)
            for role in ("scheduler", "worker"):
                pod = {"apiVersion": "v1", "kind": "Pod", "spec": manifest["spec"][role]["spec"]}
                kubernetes_validate.validate(pod, KUBERNETES, strict=True)
        elif manifest["apiVersion"] == "kubernetes.dask.org/v1":
            jsonschema.validate(manifest, schema_of(manifest["kind"]))
        else:
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except jsonschema.ValidationError as error:
        return error.message
    return None


@pytest.mark.medium
@pytest.mark.parametrize(
    "manifest", [m for _, m in MANIFESTS], ids=[f"{name}-{m['kind']}" for name, m in MANIFESTS]
)
def test_manifests_fit_their_schema(manifest, cluster_schema):
    assert problems(manifest, cluster_schema) is None


@pytest.mark.medium
@pytest.mark.parametrize(
    "more", [{}, {"pod_template": str(FOLDER / "pod-template.yaml")}], ids=["plain", "template"]
)
def test_what_kind_kubernetes_asks_for_fits_too(cluster_schema, more):
    pods = {"image": "i:1", "gpus": 1, "secret": "keys", "service_account": "solver", **more}
    spec = Cluster.model_validate(
        {"kind": "kubernetes", "memory_limit": "32GB", "workers": 4, "kubernetes": pods}
    )
    assert problems(cluster_resource(spec, "sssp-1"), cluster_schema) is None


@pytest.mark.medium
def test_a_key_that_nobody_knows_is_seen(cluster_schema):
    [cluster], [job] = documents("cluster.yaml"), documents("job.yaml")
    cluster["spec"]["worker"]["replica"] = 2
    assert "'replica' was unexpected" in problems(cluster, cluster_schema)
    [cluster] = documents("cluster.yaml")
    cluster["spec"]["worker"]["spec"]["containers"][0]["resources"]["limit"] = {}
    assert "'limit' was unexpected" in problems(cluster, cluster_schema)
    job["spec"]["template"]["spec"]["restartPolicy"] = 3
    assert problems(job, cluster_schema)


def pods() -> dict[str, dict]:
    [cluster], [job] = documents("cluster.yaml"), documents("job.yaml")
    return {
        "scheduler": cluster["spec"]["scheduler"]["spec"],
        "worker": cluster["spec"]["worker"]["spec"],
        "run": job["spec"]["template"]["spec"],
    }


def test_only_workers_take_a_gpu():
    gpus = {
        role: container["resources"]["limits"].get("nvidia.com/gpu")
        for role, pod in pods().items()
        for container in pod["containers"]
    }
    assert gpus == {"scheduler": None, "worker": "1", "run": None}


@pytest.mark.parametrize("role", ["scheduler", "worker", "run"])
def test_pods_are_not_root_and_have_no_token(role):
    pod = pods()[role]
    dockerfile = (FOLDER.parent / "container" / "Dockerfile").read_text(encoding="utf-8")
    assert f"USER {pod['securityContext']['runAsUser']}:" in dockerfile
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["resources"]["limits"]["memory"] == container["resources"]["requests"]["memory"]


def test_the_image_is_one_and_of_this_release():
    from sssp_pipeline import __version__

    images = {container["image"] for pod in pods().values() for container in pod["containers"]}
    assert images == {f"registry.example/sssp-pipeline:{__version__}"}


def test_secrets_are_named_and_never_written():
    assert not any(manifest["kind"] == "Secret" for _, manifest in MANIFESTS)
    for role in ("worker", "run"):
        [container] = pods()[role]["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": "sssp-storage"}}]
        assert {entry["name"] for entry in container.get("env", [])} <= {"SSSP_LOG_FORMAT"}


def test_the_workflow_is_valid_and_finds_the_scheduler_of_the_cluster():
    cluster_section = load_workflow(str(FOLDER / "workflow.yaml")).cluster
    [cluster] = documents("cluster.yaml")
    # The operator names the service after the cluster.
    ports = {port["name"]: port["port"] for port in cluster["spec"]["scheduler"]["service"]["ports"]}
    assert cluster_section.address == f"tcp://{cluster['metadata']['name']}-scheduler:{ports['tcp-comm']}"
    [autoscaler] = documents("autoscaler.yaml")
    assert autoscaler["spec"]["cluster"] == cluster["metadata"]["name"]


def test_the_readme_creates_what_the_manifests_name():
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert re.search(r"create configmap sssp-workflow --from-file=workflow.yaml", readme)
    assert re.search(r"create secret generic sssp-storage ", readme)
