#!/usr/bin/env bash
# `kubectl create` by its arguments, without a file: kubectl makes the object itself, and sends it in protobuf.
. "$(dirname "$0")/lib.sh"
NS=made
printf 'first\nsecond\n' >lines.txt
printf '\000\001\377' >bytes.bin
printf 'A=1\nB=two words\n' >vars.env
mkdir dir && cp lines.txt bytes.bin dir

k create namespace $NS
k create namespace $NS
k create namespace Not_A_Name
k get ns $NS --show-labels

k -n $NS create configmap words --from-literal=a=b --from-literal=empty=
k -n $NS create configmap words --from-literal=a=b
k -n $NS create configmap files --from-file=lines.txt --from-file=renamed=bytes.bin
k -n $NS create configmap whole --from-file=dir
k -n $NS create configmap vars --from-env-file=vars.env
k -n $NS create configmap empty
k -n $NS create configmap hashed --from-literal=a=b --append-hash -o name
k -n $NS create configmap 'Not A Name' --from-literal=a=b
k -n $NS create configmap trial --from-literal=a=b --dry-run=server -o yaml
k -n nowhere create configmap words --from-literal=a=b
k -n $NS get cm words files whole vars empty -o yaml

k -n $NS create secret generic plain --from-literal=user=me --from-file=bytes.bin
k -n $NS create secret generic typed --type=example.com/odd --from-literal=a=b
k -n $NS create secret generic plain
k -n $NS create secret docker-registry pull --docker-server=example.com --docker-username=me --docker-password=secret
k -n $NS create secret generic login --type=kubernetes.io/basic-auth --from-literal=odd=b
k -n $NS get secret plain typed pull -o yaml

k -n $NS create serviceaccount robot
k -n $NS create sa robot
k -n $NS get sa robot -o yaml

k -n $NS create quota small --hard=cpu=1500m,memory=1Gi,pods=2 --scopes=NotTerminating
k -n $NS create quota odd --hard=cpu=abc
k -n $NS create quota odd --hard=cpu=-1
k -n $NS get quota small -o yaml

k -n $NS create deployment web --image=example.com/web:1 --replicas=0 --port=8080
k -n $NS create deployment two --image=example.com/a:1 --image=example.com/b:1 --replicas=3
k -n $NS create deployment sleeper --image=example.com/web:1 -- sleep 1h
k -n $NS create deployment Web --image=example.com/web:1
k -n $NS get deployment web two sleeper -o yaml

k -n $NS get cm files -o yaml --show-managed-fields
k -n $NS get quota small -o yaml --show-managed-fields
k -n $NS get deployment two -o yaml --show-managed-fields

k -n $NS create job once --image=example.com/job:1 -- run --fast
k -n $NS create cronjob nightly --image=example.com/job:1 --schedule='0 3 * * *' -- run
k -n $NS create cronjob odd --image=example.com/job:1 --schedule=never
k -n $NS create job now --from=cronjob/nightly
k -n $NS get cronjob nightly -o yaml
k -n $NS get job once now -o 'jsonpath={range .items[*]}{.metadata.name} {.spec.completions} {.spec.template.spec.containers[0].command} {.metadata.ownerReferences[0].kind}{"\n"}{end}'

k create priorityclass high --value=1000 --description='before others'
k get priorityclass high -o yaml
k delete priorityclass high
k -n $NS create service clusterip front --tcp=80:http --clusterip=None
k -n $NS get service front -o 'jsonpath={.spec.clusterIP} {.spec.ports} {.spec.selector}{"\n"}'
k -n $NS create poddisruptionbudget careful --selector=app=web --min-available=50%
k -n $NS get pdb careful -o yaml
k -n $NS set image deployment/web web=example.com/web:2
k -n $NS scale deployment web --replicas=2
k -n $NS rollout restart deployment/absent
k -n $NS expose deployment web --cluster-ip=None --dry-run=server -o name
k -n $NS delete cm words --cascade=orphan
k -n $NS delete deployment web --cascade=foreground --wait=false
k -n $NS delete sa,quota,job,cronjob,pdb --all
k delete ns $NS
echo "--- end"
