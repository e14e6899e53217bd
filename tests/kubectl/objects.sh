#!/usr/bin/env bash
# The kinds that every cluster is made of: written, read in every output, changed in every way, watched, deleted.
. "$(dirname "$0")/lib.sh"
NS=session

cat >ns.json <<J
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"$NS","labels":{"team":"a"}}}
J
cat >cm.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata:
  name: one
  labels: {app: web, tier: "1"}
data:
  key: value
  lines: |
    first
    second
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: two
  labels: {app: db}
data: {a: "1", b: "2"}
Y
cat >all.json <<'J'
{"apiVersion":"v1","kind":"List","items":[
 {"apiVersion":"v1","kind":"Secret","metadata":{"name":"plain"},"stringData":{"user":"me"}},
 {"apiVersion":"v1","kind":"Secret","metadata":{"name":"login"},"type":"kubernetes.io/basic-auth","data":{"username":"YQ==","password":"Yg=="}},
 {"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"robot","annotations":{"x/y":"z"}}},
 {"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"lock"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2026-01-02T03:04:05.000000Z"}},
 {"apiVersion":"v1","kind":"Event","metadata":{"name":"happened"},"involvedObject":{"kind":"ConfigMap","namespace":"session","name":"one"},"reason":"Testing","message":"something happened","type":"Normal","source":{"component":"me"},"firstTimestamp":"2020-01-02T03:04:05Z","lastTimestamp":"2020-01-02T03:04:05Z","count":3}
]}
J
cat >bad.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: Not_A_Name}
data: {a: "1"}
Y
cat >wrongtype.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: wrong}
data: {a: 1}
Y
cat >finalized.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: held, finalizers: [example.com/hold]}
Y

k create -f ns.json
k create -f ns.json
k -n $NS create -f cm.yaml
k -n $NS create -f cm.yaml
k -n $NS create -f all.json
k -n $NS create -f bad.yaml
k -n $NS create -f wrongtype.yaml
k -n nowhere create -f cm.yaml
k -n $NS create --dry-run=server -o yaml -f finalized.yaml
k -n $NS get configmap held

k get ns $NS
k get ns $NS -o wide --show-labels
k -n $NS get configmaps one two
k -n $NS get cm,secret,sa,lease
k -n $NS get cm,secret,sa,lease -o wide
k -n $NS get cm one -o yaml
k -n $NS get cm one -o json
k -n $NS get secret plain -o yaml
k -n $NS get lease lock -o yaml
k -n $NS get events
k -n $NS get events -o wide
k -n $NS get events.events.k8s.io happened -o yaml
k -n $NS get cm one -o name
k -n $NS get cm one -o 'jsonpath={.data.key}{"\n"}'
k -n $NS get cm one two -o 'custom-columns=NAME:.metadata.name,APP:.metadata.labels.app'
k -n $NS get cm -l app=web -o name
k -n $NS get cm -l 'app in (web,db),tier' -o name
k -n $NS get cm -l 'app notin (web),app' -o name
k -n $NS get cm -l '!tier,app' -o name
k -n $NS get cm --field-selector metadata.name=two -o name
k -n $NS get secret --field-selector type=kubernetes.io/basic-auth -o name
k -n $NS get cm --field-selector data.key=value
k -n $NS get cm -l 'app in ('
k -n $NS get cm --chunk-size=1 -o name
k -n $NS get cm absent
k -n $NS get cm absent --ignore-not-found
k get cm -A --field-selector metadata.namespace=$NS -o name
k -n $NS get cm one --show-managed-fields=false -o 'jsonpath={.metadata.name}{"\n"}'
k get widgets
k get --raw /api/v1/nonsense
k get --raw /healthz
sh_ "kubectl get --raw /apis/coordination.k8s.io | python3 -m json.tool --sort-keys"

sed 's/key: value/key: changed/' cm.yaml >cm2.yaml
k -n $NS replace -f cm2.yaml
k -n $NS get cm one -o 'jsonpath={.data.key}{"\n"}'
k -n $NS patch cm one --type merge -p '{"data":{"key":"patched","lines":null}}'
k -n $NS patch cm one --type merge -p '{"data":{"key":"patched"}}'
k -n $NS patch cm one --type json -p '[{"op":"replace","path":"/data/key","value":"json"},{"op":"test","path":"/data/key","value":"json"}]'
k -n $NS patch cm one --type json -p '[{"op":"test","path":"/data/key","value":"other"}]'
k -n $NS patch cm one --type json -p '[{"op":"remove","path":"/data/absent"}]'
k -n $NS patch cm one --type merge -p '{"metadata":{"name":"other"}}'
k -n $NS patch cm one --type merge -p '{"metadata":{"resourceVersion":"1"}}'
k -n $NS patch cm absent --type merge -p '{}'
k -n $NS get cm one -o 'jsonpath={.data}{"\n"}'
k -n $NS label --overwrite cm one colour=red
k -n $NS label cm one colour=blue
k -n $NS label cm one colour-
k -n $NS label cm one 'bad key=x'
k -n $NS annotate cm one note=hello
k -n $NS annotate cm one note-
k -n $NS get cm one --show-labels
k -n $NS patch lease lock --type merge -p '{"spec":{"leaseDurationSeconds":0}}'
k -n $NS patch secret login --type merge -p '{"type":"Opaque"}'
k -n $NS patch cm two --type merge -p '{"immutable":true}'
k -n $NS patch cm two --type merge -p '{"data":{"a":"9"}}'
k patch ns $NS --type merge -p '{"metadata":{"labels":{"team":"b"}}}'
k get ns $NS --show-labels

sh_ "kubectl -n $NS get cm -w --request-timeout=3s -o name --field-selector metadata.name=one"
sh_ "(sleep 1; kubectl -n $NS patch cm one --type merge -p '{\"data\":{\"w\":\"1\"}}' >/dev/null) & kubectl -n $NS get cm one -w --request-timeout=4s -o 'jsonpath={.data.w}{\";\"}'; wait"
k -n $NS wait cm/one --for=jsonpath='{.data.key}'=json --timeout=10s
k -n $NS wait cm/one --for=jsonpath='{.data.key}'=never --timeout=1s
sh_ "(sleep 1; kubectl -n $NS delete cm two >/dev/null) & kubectl -n $NS wait cm/two --for=delete --timeout=20s; wait"

k -n $NS create -f finalized.yaml
k -n $NS delete cm held --wait=false
k -n $NS delete cm held --wait=false
k -n $NS get cm held -o 'jsonpath={.metadata.finalizers}{.metadata.deletionGracePeriodSeconds}{"\n"}'
k -n $NS patch cm held --type merge -p '{"metadata":{"finalizers":["example.com/hold","example.com/more"]}}'
k -n $NS patch cm held --type merge -p '{"metadata":{"finalizers":null}}'
k -n $NS get cm held
k -n $NS delete secret plain absent
k -n $NS delete -f cm.yaml --ignore-not-found
k -n $NS delete secret --all
k -n $NS delete cm one --dry-run=server
k delete ns default
k delete ns $NS
k get ns $NS
k -n $NS get cm
k api-resources --api-group=coordination.k8s.io
sh_ "kubectl api-resources --no-headers | grep -E '^(configmaps|events|namespaces|secrets|serviceaccounts|services|leases) ' | tr -s ' '"
sh_ "kubectl api-versions | grep -E '^(v1|coordination.k8s.io/v1|events.k8s.io/v1)\$'"
echo "--- end"
