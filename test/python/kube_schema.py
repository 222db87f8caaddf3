# SPDX-License-Identifier: Apache-2.0
"""kube_schema.py FILE [ARGUMENT...] [// FILE [ARGUMENT...]]...: manifests of gantrain kube, read as kubectl reads them.

Every object is read by the published schema of its kind: the classes of Kubeflow's package, which are generated from the
OpenAPI documents of Kubernetes, JobSet and Kubeflow Trainer. What a class does not know comes back missing, and is an error
here. Then: names, labels, mounts and rules that have to agree. ARGUMENTs are those that the container has to receive.
"""

import re
import sys

import yaml
from kubeflow_trainer_api import models

KINDS = {
    ("v1", "Secret"): None,  # not in the package: looked at below
    ("v1", "Service"): models.IoK8sApiCoreV1Service,
    ("batch/v1", "Job"): models.IoK8sApiBatchV1Job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): models.JobsetV1alpha2JobSet,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): models.TrainerV1alpha1TrainJob,
    ("trainer.kubeflow.org/v1alpha1", "TrainingRuntime"): models.TrainerV1alpha1TrainingRuntime,
}


def without_empty(tree):
    """The package leaves empty objects and lists out."""
    if isinstance(tree, dict):
        kept = {key: without_empty(value) for key, value in tree.items()}
        return {key: value for key, value in kept.items() if value not in ({}, [], None)}
    if isinstance(tree, list):
        return [without_empty(value) for value in tree]
    return tree


def check_schema(thing):
    key = (thing["apiVersion"], thing["kind"])
    assert key in KINDS, key
    if KINDS[key] is None:
        assert set(thing) == {"apiVersion", "kind", "metadata", "type", "stringData"}, thing
        return
    read = without_empty(KINDS[key].from_dict(thing).to_dict())
    assert read == without_empty(thing), f"{key}: {differences(without_empty(thing), read)}"


def differences(ours, read, path=""):
    """Where two trees differ."""
    if isinstance(ours, dict) and isinstance(read, dict):
        return [d for k in sorted({*ours, *read}) for d in differences(ours.get(k), read.get(k), f"{path}.{k}")]
    if isinstance(ours, list) and isinstance(read, list) and len(ours) == len(read):
        return [d for i, (a, b) in enumerate(zip(ours, read)) for d in differences(a, b, f"{path}[{i}]")]
    return [] if ours == read else [f"{path}: {ours!r} was read as {read!r}"]


def job_spec(things):
    """The spec of the Job that makes the pods."""
    for thing in things:
        spec = thing.get("spec", {})
        if thing["kind"] == "Job":
            return spec
        if thing["kind"] == "TrainingRuntime":
            spec = spec["template"]["spec"]
        if thing["kind"] in ("JobSet", "TrainingRuntime"):
            (one,) = spec["replicatedJobs"]
            assert spec["failurePolicy"]["rules"][0]["onJobFailureReasons"] == ["PodFailurePolicy"]
            return one["template"]["spec"]
    raise AssertionError("no Job")


def expanded(word, names):
    """An argument as Kubernetes passes it on: $$ is $, $(NAME) a variable of the container."""
    def put(found):
        if found[0] == "$$":
            return "$"
        return f"<{found[1]}>" if found[1] in names else found[0]

    return re.sub(r"\$\$|\$\(([^)]*)\)", put, word)


def check_pod(things, job):
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["restartPolicy"] == "Never"
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounts = [mount["name"] for mount in container["volumeMounts"]]
    assert volumes == set(mounts) and len(mounts) == len(volumes), (volumes, mounts)
    paths = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert len(set(paths)) == len(paths) and all(p.startswith("/") for p in paths), paths
    rules = job["podFailurePolicy"]["rules"]
    by_code = {c: r["action"] for r in rules for c in r.get("onExitCodes", {}).get("values", [])}
    assert by_code == {75: "Ignore", 2: "FailJob", 3: "FailJob", 4: "FailJob", 5: "FailJob"}, by_code
    assert all(r["onExitCodes"]["containerName"] == container["name"] for r in rules if "onExitCodes" in r)
    assert {c["type"]: (r["action"], c["status"]) for r in rules for c in r.get("onPodConditions", [])} == {
        "DisruptionTarget": ("Ignore", "True")
    }
    labels = job["template"]["metadata"]["labels"]
    for service in (t for t in things if t["kind"] == "Service"):
        assert service["spec"]["selector"].items() <= labels.items()
        assert service["spec"]["clusterIP"] == "None" and pod["subdomain"] == service["metadata"]["name"]
    return container


def main(path, expected):
    text = open(path, encoding="utf-8").read()
    things = list(yaml.safe_load_all(text))
    assert len({(t["kind"], t["metadata"]["name"]) for t in things}) == len(things)
    assert len({t["metadata"].get("namespace") for t in things}) == 1
    for thing in things:
        check_schema(thing)
    job = job_spec(things)
    container = check_pod(things, job)
    trainer = next((t["spec"]["trainer"] for t in things if t["kind"] == "TrainJob"), None)
    if trainer is not None:
        names = {(t["kind"], t["metadata"]["name"]) for t in things}
        (ref,) = [t["spec"]["runtimeRef"] for t in things if t["kind"] == "TrainJob"]
        assert (ref["kind"], ref["name"]) in names
        assert container["name"] == "node"  # by which Kubeflow knows it
        assert not any(e["name"].startswith("PET_") for e in trainer["env"])  # these are the controller's
    work = trainer or container
    names = {"JOB_COMPLETION_INDEX", *(e["name"] for e in work["env"])}
    received = [expanded(word, names) for word in work["args"]]
    for word in received:
        assert isinstance(word, str)
    if expected:
        assert received == expected, (received, expected)


groups = [[]]
for argument in sys.argv[1:]:
    if argument == "//":
        groups.append([])
    else:
        groups[-1].append(argument)
for path, *words in groups:
    main(path, words)
