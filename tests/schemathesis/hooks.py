"""What the document says in words only, because a schema cannot: some parameters do not go together, a search is text of a
language, a report is about now. Data that Schemathesis means to be right is made right here; what it means to be wrong is
sent as it is."""

import os
from datetime import datetime, timedelta

import schemathesis
from schemathesis.core.parameters import ParameterLocation

NOW = datetime.fromisoformat(os.environ["FLEET_NOW"].replace("Z", "+00:00"))
# How long to listen to a watch, which does not end by itself, in seconds.
LISTEN = 0.05
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
    if isinstance(case.body, dict) and not wrong(ParameterLocation.BODY):
        if operation.startswith("report_status_"):
            case.body = right_report(dict(case.body))
        elif operation == "patch_any" and isinstance(case.body.get("spec"), dict):
            # The rules of a kind for its spec hold here too, but which kind it is, only the server knows.
            spec = {key: value for key, value in case.body["spec"].items() if key not in ("region", "zones")}
            case.body = {**case.body, "spec": spec}


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


def right_report(report):
    if isinstance(report.get("observed_time"), str):
        behind = timedelta(seconds=sum(map(ord, report["observed_time"])) % 1800)
        report["observed_time"] = (NOW - behind).isoformat()
    conditions = {condition["type"]: condition for condition in report["conditions"]}
    missing = [type_ for type_ in MANDATORY if type_ not in conditions]
    kept = list(conditions.values())[: 100 - len(missing)]
    report["conditions"] = kept + [{"type": type_, "status": "True"} for type_ in missing]
    return report
