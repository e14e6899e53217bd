"""What the document says in words only, because a schema cannot: some parameters do not go together, a search is text of a
language, a report is about now, an id is that of something there is. Data that Schemathesis means to be right is made right here; what it means to be wrong is
sent as it is."""

import itertools
import os
from datetime import datetime, timedelta
from functools import cache

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation

NOW = datetime.fromisoformat(os.environ["FLEET_NOW"].replace("Z", "+00:00"))
URL = os.environ["FLEET_URL"]
# How long to listen to a watch, which does not end by itself, in seconds.
LISTEN = 1.0
MANDATORY = ("Available", "Applied", "Health")
FIELDS = (
    "id", "name", "kind", "spec", "spec.*", "spec.a.b", "labels", "labels.env", "tenancy", "status", "generation",
    "status.conditions", "status.conditions.type", "owner_references.id", "created_time", "deleted_by",
)
SEARCHES = (
    "name = '{}'", "name != '{}' and generation >= 1", "not (kind like '{}%' or created_by ilike '_{}')",
    "labels.env in ['{}', 'prod']", "spec.region = '{}' or spec.size > 3", "id between '{}' and 'z'",
    "status.conditions.Ready = 'False' or name < '{}'", "deleted_time is null and href >= '{}'",
)


@schemathesis.hook
def before_call(context, case, kwargs):
    meta = case.meta
    wrong = meta.is_negative_at if meta is not None else lambda location: False
    if case.query and not wrong(ParameterLocation.QUERY):
        case.query = right_query(dict(case.query))
    if case.query and str(case.query.get("watch")).lower() == "true":
        kwargs["timeout"] = LISTEN
        if case.headers and not wrong(ParameterLocation.HEADER):
            case.headers = {**case.headers, "Last-Event-ID": "0"}
    operation = case.operation.definition.raw["operationId"]
    if case.path_parameters and not wrong(ParameterLocation.PATH) and not follows_links(meta):
        case.path_parameters = right_path(operation, dict(case.path_parameters))
    if isinstance(case.body, dict) and not wrong(ParameterLocation.BODY):
        case.body = without_nul(case.body)
        if operation.startswith("create_"):
            case.body = right_new(dict(case.body), always=follows_links(meta))
        elif operation.startswith("report_status_"):
            case.body = right_report(dict(case.body))
        elif operation == "patch_any" and isinstance(case.body.get("spec"), dict):
            # The rules of a kind for its spec hold here too, but which kind it is, only the server knows.
            spec = {key: value for key, value in case.body["spec"].items() if key not in ("region", "zones")}
            case.body = {**case.body, "spec": spec}


# What was removed by force, and to what each resource belongs.
GONE = set()
OWNERS = {}


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw["operationId"]
    if operation.startswith("force_delete_") and response.status_code == 204:
        GONE.add(case.path_parameters["id"])
    if operation.startswith("create_") and response.status_code == 201:
        made = response.json()
        OWNERS[made["id"]] = made.get("owner_references", {}).get("id")


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Schemathesis takes only DELETE at the same path for what removes a resource. Here it has several paths, and
    force-delete removes it too, with what belongs to it."""
    ids = set((case.path_parameters or {}).values())
    removed = ids & GONE or {OWNERS.get(id) for id in ids} & GONE
    return not (type(failure).__name__ == "EnsureResourceAvailability" and removed)


def without_nul(value):
    """Schemathesis leaves U+0000 out of values when told, but not out of names."""
    if isinstance(value, dict):
        return {key.replace("\0", ""): without_nul(member) for key, member in value.items()}
    return [without_nul(item) for item in value] if isinstance(value, list) else value


def follows_links(meta):
    return meta is not None and meta.phase.name.value.lower() == "stateful"


def right_path(operation, path):
    """Ids of what there is, three times in four; of what there is not, otherwise."""
    digit = str(path.get("id", path.get("parent_id")))[-1]
    if digit in "0123":
        return path
    if "id" not in path:
        return {"parent_id": standing("to have node pools")[0]}
    of_node_pool = operation.endswith("NodePool") or (operation.endswith("any") and digit in "456789")
    if operation.startswith("delete_"):
        cluster, node_pool = make()
    elif operation.startswith("force_delete_"):
        cluster, node_pool = make()
        send("DELETE", f"/clusters/{cluster}" if not of_node_pool else f"/nodepools/{node_pool}")
    else:
        cluster, node_pool = standing("to be reported on" if "status" in operation else "to be changed")
    right = {"id": node_pool if of_node_pool else cluster}
    return {**right, "parent_id": cluster} if "parent_id" in path else right


NUMBERS = itertools.count(1)


@cache
def standing(purpose):
    """The ids of a cluster and of a node pool of it that nobody deletes."""
    return make()


def make():
    number = next(NUMBERS)
    cluster = send("POST", "/clusters", {"kind": "Cluster", "name": f"standing-{number}", "spec": {}})["id"]
    node_pool = {"kind": "NodePool", "name": f"standing-{number}", "spec": {}}
    return cluster, send("POST", f"/clusters/{cluster}/nodepools", node_pool)["id"]


def send(method, path, body=None):
    response = requests.request(method, URL + path, json=body, timeout=10)
    response.raise_for_status()
    return response.json()


def right_query(query):
    if str(query.get("watch")).lower() == "true":
        return {name: value for name, value in query.items() if name in ("watch", "since", "kind")}
    query.pop("since", None)
    if "search" in query:
        text = str(query["search"])
        search = SEARCHES[len(text) % len(SEARCHES)]
        query["search"] = search.replace("{}", text[:1000].replace("'", "''"))
    if query.get("fields"):
        given = query["fields"] if isinstance(query["fields"], list) else [query["fields"]]
        query["fields"] = [FIELDS[sum(map(ord, str(field))) % len(FIELDS)] for field in given]
    return query


def right_new(new, always):
    """A name that is still free, three times in four: Schemathesis likes to send what it has sent before. Where it follows
    links, it gives up when the same steps do not lead to the same answers; so always there."""
    number = next(NUMBERS)
    return new if number % 4 == 0 and not always else {**new, "name": f"{new['name'][:8]}-{number:x}"}


def right_report(report):
    if isinstance(report.get("observed_time"), str):
        behind = timedelta(seconds=sum(map(ord, report["observed_time"])) % 1800)
        report["observed_time"] = (NOW - behind).isoformat()
    if len(report["adapter"]) % 2:
        # Nobody changes what is reported on; so this is its generation, and the report is accepted.
        report["observed_generation"] = 1
    conditions = {condition["type"]: condition for condition in report["conditions"]}
    missing = [type_ for type_ in MANDATORY if type_ not in conditions]
    kept = list(conditions.values())[: 100 - len(missing)]
    report["conditions"] = kept + [{"type": type_, "status": "True"} for type_ in missing]
    return report
