"""The Python client of Kubernetes at work: objects are made, watched, changed and deleted, typed and untyped.

KUBECONFIG names the cluster. Each test has a namespace of its own.
"""

import threading
import time
import unittest

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError
from kubernetes.utils import create_from_dict

PATIENCE = 30  # seconds that anything may take
LABEL = {"app": "web"}


def eventually(what, ask):
    """Waits until something is so, and returns what it is."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = ask()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.05)


def named(name, **rest):
    return client.V1ObjectMeta(name=name, **rest)


class Flow(unittest.TestCase):
    def setUp(self):
        self.api = config.new_client_from_config()
        self.core = client.CoreV1Api(self.api)
        namespace = client.V1Namespace(metadata=client.V1ObjectMeta(generate_name="python-"))
        self.namespace = self.core.create_namespace(namespace).metadata.name
        self.addCleanup(self.api.close)
        self.addCleanup(self.core.delete_namespace, self.namespace)

    def refused(self, code, reason, call, *arguments, **named_arguments):
        with self.assertRaises(ApiException) as caught:
            call(*arguments, **named_arguments)
        self.assertEqual(caught.exception.status, code)
        self.assertIn(f'"reason":"{reason}"', caught.exception.body)

    def test_a_config_map_lives_its_whole_life(self):
        made = self.core.create_namespaced_config_map(
            self.namespace, client.V1ConfigMap(metadata=named("a", labels=LABEL), data={"key": "value"})
        )
        self.assertIsNotNone(made.metadata.creation_timestamp)
        again = client.V1ConfigMap(metadata=named("a"))
        self.refused(409, "AlreadyExists", self.core.create_namespaced_config_map, self.namespace, again)
        wrong = client.V1ConfigMap(metadata=named("Not_A_Name"))
        self.refused(422, "Invalid", self.core.create_namespaced_config_map, self.namespace, wrong)

        made.data["key"] = "changed"
        changed = self.core.replace_namespaced_config_map("a", self.namespace, made)
        self.refused(409, "Conflict", self.core.replace_namespaced_config_map, "a", self.namespace, made)
        # The client picks the kind of patch by what it is given: a dictionary or a list.
        self.core.patch_namespaced_config_map("a", self.namespace, {"data": {"merged": "1"}})
        patch = [{"op": "add", "path": "/data/added", "value": "2"}]
        patched = self.core.patch_namespaced_config_map("a", self.namespace, patch)
        self.assertEqual(patched.data, {"key": "changed", "merged": "1", "added": "2"})
        self.assertEqual(patched.metadata.uid, changed.metadata.uid)

        listed = self.core.list_namespaced_config_map(self.namespace, label_selector="app=web")
        self.assertEqual([item.metadata.name for item in listed.items], ["a"])
        other = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="another"))
        self.refused(409, "Conflict", self.core.delete_namespaced_config_map, "a", self.namespace, body=other)
        status = self.core.delete_namespaced_config_map("a", self.namespace)
        self.assertEqual(status.status, "Success")
        self.refused(404, "NotFound", self.core.read_namespaced_config_map, "a", self.namespace)

    def test_a_watch_shows_what_happens_and_goes_on_from_a_revision(self):
        self.core.create_namespaced_secret(self.namespace, client.V1Secret(metadata=named("before")))
        listed = self.core.list_namespaced_secret(self.namespace)
        seen, watching = [], watch.Watch()

        def follow():
            events = watching.stream(
                self.core.list_namespaced_secret,
                self.namespace,
                resource_version=listed.metadata.resource_version,
                timeout_seconds=PATIENCE,
            )
            for event in events:
                seen.append((event["type"], event["object"].metadata.name))
                if event["type"] == "DELETED":
                    watching.stop()

        following = threading.Thread(target=follow, daemon=True)
        following.start()
        secret = client.V1Secret(metadata=named("a"), string_data={"user": "me"})
        self.core.create_namespaced_secret(self.namespace, secret)
        self.core.patch_namespaced_secret("a", self.namespace, {"metadata": {"labels": LABEL}})
        self.core.delete_namespaced_secret("a", self.namespace)
        following.join(PATIENCE)
        self.assertEqual(seen, [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")])

    def test_a_deployment_is_scaled_and_its_status_written(self):
        apps = client.AppsV1Api(self.api)
        container = client.V1Container(name="web", image="example.com/web:1")
        deployment = client.V1Deployment(
            metadata=named("web"),
            spec=client.V1DeploymentSpec(
                selector=client.V1LabelSelector(match_labels=LABEL),
                template=client.V1PodTemplateSpec(
                    metadata=client.V1ObjectMeta(labels=LABEL), spec=client.V1PodSpec(containers=[container])
                ),
            ),
        )
        made = apps.create_namespaced_deployment(self.namespace, deployment)
        self.assertEqual(made.spec.replicas, 1)
        scaled = apps.patch_namespaced_deployment_scale("web", self.namespace, {"spec": {"replicas": 3}})
        self.assertEqual((scaled.spec.replicas, scaled.status.selector), (3, "app=web"))
        status = {"status": {"replicas": 3, "readyReplicas": 2}}
        apps.patch_namespaced_deployment_status("web", self.namespace, status)
        read = apps.read_namespaced_deployment("web", self.namespace)
        self.assertEqual((read.spec.replicas, read.status.ready_replicas, read.metadata.generation), (3, 2, 2))
        side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "example.com/side:1"}]}}}}
        patched = apps.patch_namespaced_deployment("web", self.namespace, side)
        self.assertEqual(sorted(item.name for item in patched.spec.template.spec.containers), ["side", "web"])
        apps.delete_collection_namespaced_deployment(self.namespace)
        self.assertEqual(apps.list_namespaced_deployment(self.namespace).items, [])

    def test_pages_of_a_list_add_up(self):
        names = [f"map-{number}" for number in range(5)]
        for name in names:
            body = client.V1ConfigMap(metadata=named(name, labels=LABEL))
            self.core.create_namespaced_config_map(self.namespace, body)
        found, token = [], None
        while True:
            page = self.core.list_namespaced_config_map(
                self.namespace, limit=2, label_selector="app=web", _continue=token
            )
            found.extend(item.metadata.name for item in page.items)
            token = page.metadata._continue
            if not token:
                break
        self.assertEqual(found, names)

    def test_custom_kinds_are_defined_and_used_untyped(self):
        group = f"{self.namespace}.example.com"
        schema = {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3, "maximum": 9}}},
                "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
            },
        }
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }
        create_from_dict(self.api, definition)
        extensions = client.ApiextensionsV1Api(self.api)
        self.addCleanup(extensions.delete_custom_resource_definition, f"widgets.{group}")

        def established():
            conditions = extensions.read_custom_resource_definition(f"widgets.{group}").status.conditions or []
            return any((found.type, found.status) == ("Established", "True") for found in conditions)

        eventually("the definition is established", established)
        custom, at = client.CustomObjectsApi(self.api), (group, "v1", self.namespace, "widgets")
        widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {}}

        def made():
            try:
                return custom.create_namespaced_custom_object(*at, widget)
            except ApiException as problem:
                if problem.status != 404:
                    raise
                return None

        self.assertEqual(eventually("the kind is served", made)["spec"], {"size": 3})
        custom.patch_namespaced_custom_object(*at, "a", {"spec": {"size": 5}})
        status = custom.patch_namespaced_custom_object_status(*at, "a", {"status": {"phase": "Ready"}})
        self.assertEqual((status["spec"], status["status"]), ({"size": 5}, {"phase": "Ready"}))
        too_large = {"spec": {"size": 10}}
        self.refused(422, "Invalid", custom.patch_namespaced_custom_object, *at, "a", too_large)

        widgets = dynamic.DynamicClient(self.api).resources.get(api_version=f"{group}/v1", kind="Widget")
        read = widgets.get(name="a", namespace=self.namespace)
        self.assertEqual((read.spec.size, read.status.phase), (5, "Ready"))
        stale = read.to_dict()
        stale["metadata"]["resourceVersion"] = "1"
        with self.assertRaises(ConflictError):
            widgets.replace(body=stale, namespace=self.namespace)
        widgets.delete(name="a", namespace=self.namespace)
        with self.assertRaises(NotFoundError):
            widgets.get(name="a", namespace=self.namespace)


if __name__ == "__main__":
    unittest.main()
