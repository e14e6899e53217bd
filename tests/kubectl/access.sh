#!/usr/bin/env bash
# Who may do what: roles, bindings and tokens made and asked about, and server-side apply by several hands.
. "$(dirname "$0")/lib.sh"
NS=access-session

k create namespace $NS
kubectl config set-context --current --namespace=$NS >/dev/null
# Kubernetes takes a moment to provide what every namespace has, and to learn of a role.
until kubectl get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
until_yes() { for _ in $(seq 100); do kubectl auth can-i "$@" >/dev/null 2>&1 && return; sleep 0.1; done; }

k create serviceaccount robot
k create role reader --verb=get,list,watch --resource=configmaps,deployments.apps/scale
k create role one --verb=update --resource=configmaps --resource-name=only
k create role bad --verb=get --resource=nonsense
k create rolebinding reader --role=reader --serviceaccount=$NS:robot --user=eve --group=team
k create clusterrole access-session --verb='*' --resource=secrets
k create clusterrole access-session-urls --verb=get --non-resource-url=/odd,/odd/*
k create clusterrole access-session-sum --aggregation-rule=sum=access-session
k create clusterrolebinding access-session --clusterrole=access-session --user=eve
until_yes get configmaps --as=eve
until_yes delete secrets --as=eve -n default
k get roles,rolebindings -o wide
k get role reader -o yaml
k get rolebinding reader -o yaml
k describe role one
k describe rolebinding reader
k describe clusterrole access-session access-session-urls access-session-sum
k get clusterrole cluster-admin -o yaml
k get clusterrolebinding cluster-admin system:discovery system:basic-user

k auth can-i get configmaps --as=eve
k auth can-i get configmaps --as=eve -n default
k auth can-i delete configmaps --as=eve
k auth can-i '*' secrets --as=eve -A
k auth can-i get deployments.apps --subresource=scale --as=system:serviceaccount:$NS:robot
k auth can-i get /odd/path --as=eve
k auth can-i get /version --as=eve
k auth can-i get configmaps --as=nobody --as-group=team
k auth can-i --list --as=eve
k auth can-i --list --as=system:serviceaccount:$NS:robot
k auth can-i create pods --as=
sh_ 'kubectl auth whoami --as=eve --as-group=team --as-uid=1 --as-user-extra=scopes=a -o json'
sh_ 'kubectl auth whoami --as=system:serviceaccount:access-session:robot'
k get secrets --as=nobody
k get configmaps --as=eve
k create role grown --verb='*' --resource=pods --as=eve
k create configmap no --as=eve
k delete rolebinding reader --as=eve
sh_ 'kubectl auth reconcile -f - <<Y
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: access-session}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
Y'
k get role reader -o jsonpath='{.rules}'

sh_ 'kubectl create token robot | cut -d. -f2 | wc -l'
k create token robot --duration=1m
k create token nobody
k create token robot --bound-object-kind=Secret --bound-object-name=none
# A token alone: whoever also shows a certificate is whom that names.
kubectl config view --raw -o json | TOKEN=$(kubectl create token robot) python3 -c '
import json, os, sys
config = json.load(sys.stdin)
config["users"][0]["user"] = {"token": os.environ["TOKEN"]}
json.dump(config, open("robot.kubeconfig", "w"))'
k --kubeconfig=robot.kubeconfig auth whoami -o jsonpath='{.status.userInfo.username} {.status.userInfo.groups}'
k --kubeconfig=robot.kubeconfig get configmaps
k --kubeconfig=robot.kubeconfig get secrets
k delete serviceaccount robot
sed -i 's/"token": "e/"token": "x/' robot.kubeconfig
k --kubeconfig=robot.kubeconfig get configmaps

cat >cm.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: shared, labels: {by: kubectl}}
data: {a: "1", b: "1"}
Y
cat >other.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {a: "2"}
Y
cat >deployment.yaml <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "web:1", ports: [{containerPort: 80}]}
      - {name: side, image: "side:1"}
Y
managers() { sh_ "kubectl get $1 -o json --show-managed-fields | python3 -c 'import json,sys; [print(m[\"manager\"], m[\"operation\"], m.get(\"subresource\",\"-\"), json.dumps(m[\"fieldsV1\"], sort_keys=True)) for m in sorted(json.load(sys.stdin)[\"metadata\"][\"managedFields\"], key=lambda m: (m[\"manager\"], m[\"operation\"]))]'"; }
k apply --server-side -f cm.yaml
k apply --server-side -f cm.yaml
managers configmap/shared
k apply --server-side --field-manager=other -f other.yaml
k apply --server-side --field-manager=other --force-conflicts -f other.yaml
k apply --server-side -f cm.yaml
managers configmap/shared
sed -i '/^data/d' other.yaml
k apply --server-side --field-manager=other -f other.yaml
k get configmap shared -o jsonpath='{.data}'
managers configmap/shared
k apply --server-side --dry-run=server -f cm.yaml --force-conflicts
k diff --server-side -f cm.yaml

# From client-side apply to server-side.
k apply -f deployment.yaml
managers deployment/web
sed -i 's/web:1/web:2/; s/replicas: 2/replicas: 3/' deployment.yaml
k apply --server-side -f deployment.yaml
managers deployment/web
k get deployment web -o jsonpath='{.spec.replicas} {.spec.template.spec.containers[*].image}'
sed -i '/side:1/d' deployment.yaml
k apply --server-side -f deployment.yaml
k get deployment web -o jsonpath='{.spec.template.spec.containers[*].name}'
k scale deployment web --replicas=5
managers deployment/web
k apply --server-side -f deployment.yaml
k apply --server-side --force-conflicts -f deployment.yaml
k set image deployment/web web=web:9
k apply --server-side -f deployment.yaml
k label deployment web touched=yes
managers deployment/web
sh_ 'printf "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, managedFields: [{manager: x}]}\n" | kubectl apply --server-side -f -'

k delete clusterrolebinding access-session
k delete clusterrole access-session access-session-urls access-session-sum
k delete namespace $NS
echo '--- end'
