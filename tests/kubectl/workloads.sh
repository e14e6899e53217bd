#!/usr/bin/env bash
# What add-ons bring along: workloads and the kinds around them. No controller runs on either server, so all that is
# seen is what the API itself does. Defaults of admission plugins (see docs/apiserver.md) are dropped where they show.
. "$(dirname "$0")/lib.sh"
NS=workloads

cat >app.yaml <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: server
        image: registry.example.com/web:1.0
        ports: [{containerPort: 8080, name: http}]
        env: [{name: LEVEL, value: info}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        resources: {limits: {cpu: 500m, memory: 0.5Gi}, requests: {cpu: 0.1}}
        readinessProbe: {httpGet: {port: http}}
        volumeMounts: [{name: config, mountPath: /etc/web}]
      - name: sidecar
        image: registry.example.com/sidecar
      volumes: [{name: config, configMap: {name: web}}, {name: scratch}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
Y
cat >others.yaml <<'Y'
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchExpressions: [{key: app, operator: In, values: [agent, old]}]}
  template:
    metadata: {labels: {app: agent}}
    spec: {nodeSelector: {disk: ssd}, containers: [{name: agent, image: "agent:2"}], tolerations: [{operator: Exists}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "db:1"}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: old}
spec:
  selector: {matchLabels: {app: old}}
  template: {metadata: {labels: {app: old}}, spec: {containers: [{name: old, image: "old:1"}]}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec: {completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: migrate, image: "migrate:1"}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: backup, image: "backup:1"}]}}}}}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: stamp}
template: {metadata: {labels: {app: stamp}}, spec: {containers: [{name: stamp, image: "stamp:1"}]}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota}
spec: {hard: {count/widgets.example.com: "10", limits.cpu: 2000m, memory: 1024Mi}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: PersistentVolumeClaim, max: {storage: 1024Gi}}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.1.1]}, {addresses: [10.1.1.2]}, {addresses: [10.1.1.3]}, {addresses: [10.1.1.4]}]
ports: [{name: http, port: 8080}]
Y
cat >cluster.yaml <<'Y'
apiVersion: v1
kind: Node
metadata: {name: session-node, labels: {node-role.kubernetes.io/worker: "", disk: ssd}}
spec: {podCIDR: 10.2.0.0/24, taints: [{key: dedicated, value: x, effect: NoSchedule}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: session-high}
value: 1000
description: for the session
Y
cat >pod.yaml <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: alone, labels: {app: alone}}
spec:
  automountServiceAccountToken: false
  initContainers: [{name: first, image: "init:1"}]
  containers:
  - name: main
    image: registry.example.com/main
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: "1", memory: 1Gi}}
    livenessProbe: {tcpSocket: {port: 80}}
  volumes: [{name: tmp}]
---
apiVersion: v1
kind: Endpoints
metadata: {name: outside}
subsets: [{addresses: [{ip: 10.1.1.1}, {ip: 10.1.1.2}, {ip: "fd00::1"}, {ip: 10.1.1.4}], ports: [{port: 80}]}]
Y
# What admission plugins add to a pod, as docs/apiserver.md lists it.
cat >admitted.py <<'P'
import json, sys
pod = json.load(sys.stdin)
for field in ["priority", "preemptionPolicy", "tolerations", "serviceAccount", "serviceAccountName"]:
    pod["spec"].pop(field, None)
print(json.dumps(pod, indent=1))
P
cat >bad.yaml <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: bad}
spec:
  replicas: -1
  selector: {matchLabels: {app: other}}
  template:
    metadata: {labels: {app: bad}}
    spec: {restartPolicy: Never, containers: [{name: Upper}, {name: a, image: x, volumeMounts: [{name: none, mountPath: /x}]}]}
Y
cat >unknown.yaml <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: unknown, nonsense: 1}
spec:
  replica: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: x, imagePolicy: y}]}}
Y

k create namespace $NS --dry-run=client -o name
sh_ "echo '{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"$NS\"}}' | kubectl apply -f -"
kubectl config set-context --current --namespace=$NS >/dev/null

# Applied three times: created, unchanged, changed.
k apply -f app.yaml
k apply -f app.yaml
sed -i 's/web:1.0/web:1.1/; s/replicas: 2/replicas: 3/; s/LEVEL, value: info/LEVEL, value: debug/; /sidecar/d' app.yaml
k diff -f app.yaml
k apply -f app.yaml
k apply -f app.yaml
k get deployment web -o yaml
k get deployment web -o json
k get pdb web -o yaml
k get service web -o wide
k create -f others.yaml
k create -f others.yaml
k create -f cluster.yaml
k create -f bad.yaml
k create -f unknown.yaml
k create --validate=warn -f unknown.yaml --dry-run=server -o name
k create --validate=ignore -f unknown.yaml --dry-run=server -o name

k get deployments,daemonsets,statefulsets,replicasets,jobs,cronjobs,podtemplates,quota,limits,pdb,endpointslices
k get deployments,daemonsets,statefulsets,replicasets,cronjobs,podtemplates,quota,limits,pdb,endpointslices -o wide
k get node session-node
k get pc session-high -o wide
k get ds,sts,rs,cj -o yaml
k get podtemplate,quota,limits,endpointslices -o yaml
sh_ "kubectl get job migrate -o yaml | grep -v -- -uid:"
sh_ "kubectl get node session-node -o json | python3 -c 'import json,sys; o=json.load(sys.stdin); o[\"spec\"].pop(\"taints\"); print(json.dumps(o,indent=1))'"
k get all
k get deploy web -o name
k get deploy web -o 'jsonpath={.spec.template.spec.containers[*].image}{"\n"}'
k get deploy -o 'custom-columns=NAME:.metadata.name,IMAGE:.spec.template.spec.containers[0].image,REPLICAS:.spec.replicas'
k get deploy -o 'go-template={{range .items}}{{.metadata.name}}{{"\n"}}{{end}}'
k get deploy -l app=web --show-labels
k get deploy,sts --sort-by=.spec.replicas -o name
k get rs --field-selector status.replicas=0
k get nodes --field-selector spec.unschedulable=false,metadata.name=session-node -o name
k get jobs --field-selector status.successful=0 -o name

# Pods, which nobody runs.
k create -f pod.yaml
sh_ "kubectl get pod alone -o json | python3 admitted.py"
k get pods,endpoints -o wide
k get pods --field-selector status.phase=Pending,spec.restartPolicy=Always -o name
k get pods --field-selector status.phase=Running -o name
k patch pod alone --subresource=status -p '{"status":{"phase":"Running","podIP":"10.9.9.9","podIPs":[{"ip":"10.9.9.9"}],"conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"main","image":"x","imageID":"x","ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"2026-01-01T00:00:00Z"}}}]}}'
sh_ "kubectl get pods -o wide | sed 's/([^)]* ago)/(… ago)/'"
k wait pod/alone --for=condition=Ready --timeout=5s
k patch pod alone -p '{"spec":{"containers":[{"name":"main","image":"registry.example.com/main:2"}]}}'
k get pod alone -o 'jsonpath={.metadata.generation} {.spec.containers[0].image} {.status.qosClass}{"\n"}'
k label pod alone tier=x
k annotate pod alone note=y
k delete pod alone
k delete endpoints outside

# Every kind of patch.
k patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"helper","image":"helper:1"}]}}}}'
k get deploy web -o 'jsonpath={.metadata.generation} {.spec.template.spec.containers[*].name}{"\n"}'
k patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"helper","$patch":"delete"}]}}}}'
k patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"server","env":[{"name":"LEVEL","value":"warn"},{"name":"MORE","value":"1"}],"ports":[{"containerPort":9090}]}]}}}}'
k get deploy web -o 'jsonpath={.spec.template.spec.containers[0].env}{.spec.template.spec.containers[0].ports}{"\n"}'
k patch deploy web -p '{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}'
k get deploy web -o 'jsonpath={.spec.strategy}{"\n"}'
k patch deploy web -p '{"metadata":{"finalizers":["example.com/a"]}}'
k patch deploy web -p '{"metadata":{"finalizers":["example.com/b"]}}'
k patch deploy web -p '{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/a","example.com/b"]}}'
k get deploy web -o 'jsonpath={.metadata.finalizers}{"\n"}'
k patch deploy web --type merge -p '{"spec":{"template":{"spec":{"volumes":null}}}}'
k patch deploy web --type json -p '[{"op":"replace","path":"/spec/replicas","value":4}]'
k patch deploy web --type merge -p '{"spec":{"selector":{"matchLabels":{"app":"other"}}}}'
k patch sts db --type merge -p '{"spec":{"serviceName":"other"}}'
k patch job migrate --type merge -p '{"spec":{"completions":5}}'
k patch pc session-high --type merge -p '{"value":5}'
k patch deploy web --subresource=status --type merge -p '{"status":{"replicas":4,"readyReplicas":2,"updatedReplicas":3,"availableReplicas":1,"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","message":"it is"}]},"spec":{"replicas":9}}'
k get deploy web
k get deploy web -o 'jsonpath={.metadata.generation} {.spec.replicas}{"\n"}'
k patch job migrate --subresource=status --type merge -p '{"status":{"succeeded":2,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:40Z","uncountedTerminatedPods":{},"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}}'
k get job migrate
k patch node session-node --subresource=status --type merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}],"addresses":[{"type":"InternalIP","address":"10.0.0.1"}],"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"6.1","osImage":"Linux","containerRuntimeVersion":"containerd://2","kubeletVersion":"v1.36.0","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"}}}'
k get node session-node -o wide
k cordon session-node
k get node session-node
k uncordon session-node
k taint node session-node dedicated-

k scale deploy web --replicas=6
k scale sts/db rs/old --replicas=0
k scale --current-replicas=9 --replicas=1 deploy/web
k scale job migrate --replicas=2
sh_ "kubectl get --raw /apis/apps/v1/namespaces/$NS/statefulsets/db/scale | python3 -m json.tool --sort-keys"
k get deploy web --subresource=scale -o 'jsonpath={.spec}{.status}{"\n"}'
k set image deploy/web server=registry.example.com/web:2.0
k set env deploy/web EXTRA=1
k set resources deploy/web --limits=cpu=1
k rollout pause deploy web
k rollout resume deploy web
k get deploy web -o 'jsonpath={.spec.template.spec.containers}{"\n"}'
sh_ "KUBE_EDITOR=\"sed -i s/web:2.0/web:2.1/\" kubectl edit deploy web"
sh_ "KUBE_EDITOR=true kubectl edit deploy web"
k get deploy web -o 'jsonpath={.spec.template.spec.containers[0].image}{"\n"}'
k label deploy,ds,sts --all tier=back
k annotate deploy web note=hello
k get deploy web -o 'jsonpath={.metadata.labels.tier} {.metadata.annotations.note} {.metadata.generation}{"\n"}'
k replace -f app.yaml
k wait deploy/web --for=condition=Available --timeout=5s
k wait deploy/web --for=condition=Progressing --timeout=1s
k wait deploy/web --for=jsonpath='{.spec.replicas}'=3 --timeout=5s
sh_ "kubectl describe deploy web | grep -v -e CreationTimestamp -e last-applied"
sh_ "kubectl describe sts db | grep -v CreationTimestamp"
sh_ "kubectl describe ds agent | grep -v CreationTimestamp"
sh_ "kubectl describe quota,limits,pdb | grep -v CreationTimestamp"
sh_ "kubectl describe cronjob nightly | grep -v CreationTimestamp"

k explain deployment
k explain deployment.spec.strategy --recursive
k explain pod.spec.containers.resources
k explain statefulset.spec.updateStrategy.rollingUpdate
k explain job.spec.backoffLimit
k explain pdb --recursive
k explain configmap
k explain deployment.nonsense

k delete -f app.yaml
k delete deploy,ds,sts,rs,jobs,cronjobs,podtemplates,quota,limits,pdb,endpointslices --all
k delete node session-node
k delete pc session-high
k delete ns $NS
sh_ "kubectl api-resources --no-headers | grep -E '^(nodes|pods|podtemplates|endpoints|resourcequotas|limitranges|deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|poddisruptionbudgets|priorityclasses|endpointslices|customresourcedefinitions) ' | tr -s ' '"
sh_ "kubectl api-resources --no-headers --categories=all | grep -vE 'replicationcontrollers|horizontalpod' | tr -s ' '"
sh_ "kubectl api-versions | grep -E '^(apps|batch|policy|scheduling.k8s.io|discovery.k8s.io|apiextensions.k8s.io)/'"
echo "--- end"
