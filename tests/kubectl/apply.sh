#!/usr/bin/env bash
# Applying on the server's side: who owns what, conflicts, taking over from the client's side, and what people see of it.
. "$(dirname "$0")/lib.sh"
NS=apply

cat >cm.yaml <<'Y'
apiVersion: v1
kind: ConfigMap
metadata:
  name: shared
  labels: {app: web}
data:
  a: "1"
  b: "1"
Y
cat >web.yaml <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: server
        image: registry.example.com/web:1.0
        ports: [{containerPort: 8080}]
Y
cat >ns.yaml <<Y
apiVersion: v1
kind: Namespace
metadata: {name: $NS}
Y
OWNERS='jsonpath={range .metadata.managedFields[*]}{.manager}{" "}{.operation}{" "}{.apiVersion}{" "}{.subresource}{" "}{.fieldsV1}{"\n"}{end}'
owners() { sh_ "kubectl -n $NS get $1 $2 --show-managed-fields -o '$OWNERS' | sort"; }

k create -f ns.yaml
k -n $NS apply --server-side -f cm.yaml
k -n $NS apply --server-side -f cm.yaml
k -n $NS get cm shared -o yaml
owners cm shared
sed 's/a: "1"/a: "2"/' cm.yaml >cm2.yaml
k -n $NS diff --server-side -f cm2.yaml
k -n $NS apply --server-side --field-manager other -f cm2.yaml
k -n $NS apply --server-side --field-manager other --force-conflicts -f cm2.yaml
owners cm shared
grep -v 'a: "1"' cm.yaml >cm3.yaml
k -n $NS apply --server-side -f cm3.yaml
k -n $NS get cm shared -o 'jsonpath={.data}{"\n"}'
k -n $NS apply --server-side --field-manager other -f cm3.yaml
k -n $NS get cm shared -o 'jsonpath={.data}{"\n"}'
owners cm shared
k -n $NS apply --server-side --dry-run=server -f cm.yaml
k -n $NS get cm shared -o 'jsonpath={.data}{"\n"}'

k -n $NS apply -f web.yaml
owners deployment web
k -n $NS scale deployment web --replicas=3
owners deployment web
sed 's/web:1.0/web:2.0/' web.yaml >web2.yaml
k -n $NS diff --server-side --force-conflicts -f web2.yaml
k -n $NS apply --server-side -f web2.yaml
k -n $NS apply --server-side --force-conflicts -f web2.yaml
owners deployment web
k -n $NS get deployment web -o 'jsonpath={.spec.replicas}{" "}{.spec.template.spec.containers[0].image}{"\n"}'
k -n $NS set image deployment/web server=registry.example.com/web:3.0
owners deployment web
k -n $NS apply --server-side -f web2.yaml
k -n $NS apply set-last-applied -f web2.yaml
k -n $NS label cm shared more=yes
k -n $NS annotate cm shared note=hello
owners cm shared
k -n $NS patch cm shared --type json -p '[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]'
owners cm shared
k -n $NS apply --server-side --force-conflicts -f cm.yaml
owners cm shared
k -n $NS delete -f cm.yaml -f web.yaml
echo "--- end"
