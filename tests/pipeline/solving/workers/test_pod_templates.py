"""What a template adds to the pods of a run, and the templates that are refused."""

from __future__ import annotations

import pytest
import yaml

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.solving.workers.clusters import check_startable
from sssp_pipeline.pipeline.solving.workers.kubernetes import cluster_resource
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


def spec(template, **more) -> Cluster:
    pods = {"image": "i:1", "pod_template": template, **more}
    return Cluster.model_validate({"kind": "kubernetes", "memory_limit": "32GB", "kubernetes": pods})


def pods_of(template, **more) -> dict[str, dict]:
    made = cluster_resource(spec(template, **more), "sssp-1")["spec"]
    return {role: made[role] for role in ("scheduler", "worker")}


def refused(template) -> InputError:
    """Return the error of a template, before anything looks for Kubernetes."""
    with pytest.raises(InputError) as caught:
        check_startable(spec(template))
    return caught.value


def test_a_template_is_merged_into_the_pods_of_workers_and_scheduler():
    plain = pods_of(None, secret="keys")
    given = {
        "metadata": {"labels": {"team": "roads"}, "annotations": {"a": "b"}},
        "spec": {
            "tolerations": [TOLERATION],
            "imagePullSecrets": [{"name": "registry"}],
            "containers": [
                {
                    "name": "any",
                    "env": [{"name": "HOME", "value": "/tmp"}],
                    "envFrom": [{"configMapRef": {"name": "more"}}],
                    "resources": {"limits": {"cpu": "8"}},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                },
                {"name": "logs", "image": "l:1"},
            ],
        },
    }
    made = pods_of(given, secret="keys")
    for role, pod in made.items():
        before, (dask, beside) = plain[role]["spec"]["containers"][0], pod["spec"]["containers"]
        assert pod["metadata"]["labels"] == {"app.kubernetes.io/part-of": "sssp-pipeline", "team": "roads"}
        assert pod["metadata"]["annotations"] == {"a": "b"}
        assert pod["spec"]["tolerations"] == [TOLERATION]
        assert (dask["name"], dask["image"], dask["command"]) == (role, "i:1", before["command"])
        assert dask["env"] == [*before["env"], {"name": "HOME", "value": "/tmp"}]
        assert dask["envFrom"] == [*before.get("envFrom", []), {"configMapRef": {"name": "more"}}]
        assert dask["resources"]["limits"] == {**before["resources"]["limits"], "cpu": "8"}
        assert beside == {"name": "logs", "image": "l:1"}


def test_the_scheduler_may_have_a_template_of_its_own():
    template = {"spec": {"nodeSelector": {"pool": "gpu"}}}
    made = pods_of(template, scheduler_pod_template={})
    assert made["worker"]["spec"]["nodeSelector"] == {"pool": "gpu"}
    assert "nodeSelector" not in made["scheduler"]["spec"]
    made = pods_of(template, scheduler_pod_template={"spec": {"nodeSelector": {"pool": "small"}}})
    assert made["scheduler"]["spec"]["nodeSelector"] == {"pool": "small"}


def test_a_file_gives_the_same_pods_and_lines_for_its_faults(tmp_path):
    template = {"kind": "Pod", "spec": {"tolerations": [TOLERATION]}}
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump(template))
    assert pods_of(str(file)) == pods_of(template)
    file.write_text(
        "kind: Pod\nspec:\n  tolerations:\n  - key: a\n    efect: NoSchedule\n  hostNetwork: 1\n"
        "  containers:\n  - image: mine\n"
    )
    found = refused(str(file))
    first, second = found.message.splitlines()
    assert first == f"`{file}` line 5: unknown field `efect` in `spec.tolerations[0]`"
    assert second == f"`{file}` line 6: `spec.hostNetwork` is `1`, wanted `true` or `false`"
    assert found.hint.startswith("line 5: did you mean `effect`? Fields: effect, key, operator, ")
    file.write_text("kind: Pod\nspec:\n  containers:\n  - image: mine\n")
    assert refused(str(file)).message == f"`{file}` line 4: the run sets `spec.containers[0].image` itself"
    found = refused(str(tmp_path / "none.yaml"))
    assert found.message == f"`{tmp_path / 'none.yaml'}` does not exist"
    file.write_text("")
    found = refused(str(file))
    assert (found.message, found.hint) == (
        f"`{file}` is empty",
        "write `spec:` and the fields of a pod below it",
    )


def of_container(**fields) -> dict:
    return {"spec": {"containers": [fields]}}


@pytest.mark.parametrize(
    ("template", "message", "hint"),
    [
        ({"spec": {"tolerations": {}}}, "`spec.tolerations` is a section, wanted a list", "write a list"),
        (
            {"metadata": {"labels": {"a": 1}}},
            "`metadata.labels.a` is `1`, wanted text",
            "put it into quotes",
        ),
        (
            {"metadata": {"name": "a"}},
            "unknown field `name` in `metadata`",
            "Fields: annotations, labels",
        ),
        ({"spec": {"volumes": [{}]}}, "no field `name` in `spec.volumes[0]`", "add it"),
        ({"kind": "Job"}, "`kind` is `Job`, wanted `Pod`", "correct `kind`: Kind of the resource."),
        (
            {"metadata": None},
            "`metadata` is empty, wanted names with a value each",
            "correct `metadata`: Labels and annotations.",
        ),
        (
            of_container(ports=[{"containerPort": True}]),
            "`spec.containers[0].ports[0].containerPort` is `true`, wanted an integer",
            "write an integer",
        ),
        (
            of_container(image="i:2"),
            "the run sets `spec.containers[0].image` itself",
            "remove it: `cluster.kubernetes.image` sets it",
        ),
        (of_container(args=["x"]), "the run sets `spec.containers[0].args` itself", "remove it"),
        (of_container(command=["x"]), "the run sets `spec.containers[0].command` itself", "remove it"),
        (
            of_container(resources={"requests": {"memory": "1Gi"}}),
            "the run sets `spec.containers[0].resources.requests.memory` itself",
            "remove it: `cluster.memory_limit` sets it",
        ),
        (
            of_container(resources={"limits": {"nvidia.com/gpu": "1"}}),
            "the run sets `spec.containers[0].resources.limits.nvidia.com/gpu` itself",
            "remove it: `cluster.kubernetes.gpus` sets it",
        ),
        (
            of_container(env=[{"name": "A"}, {"name": "DASK_SCHEDULER_ADDRESS", "value": "x"}]),
            "the run sets `spec.containers[0].env[1]` `DASK_SCHEDULER_ADDRESS` itself",
            "remove it",
        ),
        (
            {"metadata": {"labels": {"app.kubernetes.io/part-of": "mine"}}},
            "the run sets `metadata.labels.app.kubernetes.io/part-of` itself",
            "remove it",
        ),
    ],
    ids=[
        *("list", "label", "name", "required", "kind", "empty", "integer", "image", "args", "command"),
        *("memory", "gpu", "variable", "part-of"),
    ],
)
def test_templates_that_are_refused(template, message, hint):
    found = refused(template)
    assert found.message == f"`cluster.kubernetes.pod_template`: {message}"
    assert found.hint == hint


def test_what_a_template_may_be_is_checked_with_the_workflow():
    pods = {"image": "i", "pod_template": ["a"]}
    cluster = {"kind": "kubernetes", "memory_limit": "4GB", "kubernetes": pods}
    sections = {"graph": {"input": "e.csv"}, "sources": {"all": True}, "output": {"path": "out"}}
    with pytest.raises(InputError) as caught:
        workflow_from_dict({**sections, "cluster": cluster})
    message = "workflow: `cluster.kubernetes.pod_template` is a list, wanted text, names with a value each or `null`"
    assert caught.value.message == message
