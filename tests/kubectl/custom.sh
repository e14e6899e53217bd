#!/usr/bin/env bash
# A custom kind with every feature that a definition can have, from its definition to its end.
. "$(dirname "$0")/lib.sh"
NS=custom

cat >crd.yaml <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.session.example.com}
spec:
  group: session.example.com
  scope: Namespaced
  names: {plural: gadgets, kind: Gadget, shortNames: [gd], categories: [all, things]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields: [{jsonPath: .spec.colour}, {jsonPath: .spec.replicas}]
    additionalPrinterColumns:
    - {name: Colour, type: string, jsonPath: .spec.colour, description: What it looks like}
    - {name: Replicas, type: integer, jsonPath: .spec.replicas}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Ports, type: string, jsonPath: '.spec.ports[*].name', priority: 1}
    - {name: Ratio, type: number, jsonPath: .spec.ratio, priority: 1}
    - {name: Enabled, type: boolean, jsonPath: .spec.enabled, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        description: A gadget has a colour and does things.
        type: object
        required: [spec]
        properties:
          spec:
            description: What is wanted of the gadget.
            type: object
            required: [colour]
            x-kubernetes-validations:
            - {rule: "self.minimum <= self.maximum", message: minimum must not exceed maximum}
            - {rule: "!has(oldSelf.serial) || has(self.serial)", message: serial cannot be taken away}
            properties:
              colour: {type: string, description: One of a few colours., enum: [red, green, blue]}
              replicas: {type: integer, format: int32, minimum: 0, maximum: 10, default: 1}
              minimum: {type: integer, default: 0}
              maximum: {type: integer, default: 100}
              serial:
                type: string
                maxLength: 20
                x-kubernetes-validations: [{rule: "self == oldSelf", message: serial is immutable}]
              ratio: {type: number, exclusiveMinimum: true, minimum: 0, multipleOf: 0.5}
              enabled: {type: boolean, default: true}
              name: {type: string, minLength: 2, maxLength: 8, pattern: '^[a-z]+$'}
              size: {x-kubernetes-int-or-string: true}
              when: {type: string, format: date-time}
              secret: {type: string, format: byte}
              nothing: {type: string, nullable: true}
              tags: {type: array, maxItems: 3, items: {type: string}, x-kubernetes-list-type: set}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items:
                  type: object
                  required: [name]
                  properties: {name: {type: string}, port: {type: integer, default: 80}, protocol: {type: string, default: TCP}}
              labels: {type: object, additionalProperties: {type: string}, maxProperties: 2}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              choice:
                type: object
                properties: {a: {type: string}, b: {type: string}}
                oneOf: [{required: [a]}, {required: [b]}]
              atomic: {type: object, x-kubernetes-map-type: atomic, properties: {x: {type: integer}}}
          status:
            type: object
            properties:
              replicas: {type: integer}
              selector: {type: string}
              conditions:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [type]
                items: {type: object, required: [type, status], properties: {type: {type: string}, status: {type: string}}}
  - name: v1alpha1
    served: true
    storage: false
    deprecated: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
Y
cat >gadget.yaml <<'Y'
apiVersion: session.example.com/v1
kind: Gadget
metadata: {name: one, labels: {app: x}}
spec:
  colour: red
  name: abc
  serial: s-1
  ratio: 1.5
  size: 25%
  when: "2026-01-02T03:04:05Z"
  secret: aGk=
  nothing: null
  tags: [a, b]
  ports: [{name: http}, {name: dns, port: 53, protocol: UDP}]
  labels: {k: v}
  free: {any: {thing: [1, two]}}
  template: {apiVersion: v1, kind: Thing, metadata: {name: inner}, spec: {x: 1}}
  choice: {a: x}
  atomic: {x: 1}
Y
cat >bad.yaml <<'Y'
apiVersion: session.example.com/v1
kind: Gadget
metadata: {name: bad}
spec:
  colour: pink
  replicas: 11
  name: X
  ratio: 0.7
  size: 1.5
  when: yesterday
  secret: '***'
  tags: [a, b, a, c]
  ports: [{name: http}, {name: http}, {port: 1}]
  labels: {a: "1", b: "2", c: "3"}
  template: {kind: Thing}
  choice: {a: x, b: y}
  enabled: "yes"
Y
cat >rules.yaml <<'Y'
apiVersion: session.example.com/v1
kind: Gadget
metadata: {name: rules}
spec: {colour: red, minimum: 7, maximum: 3}
Y
cat >unknown.yaml <<'Y'
apiVersion: session.example.com/v1
kind: Gadget
metadata: {name: unknown, colour: red}
spec: {colour: red, color: red, ports: [{name: a, tcp: true}], free: {ok: 1}, template: {apiVersion: v1, kind: T, metadata: {name: t, odd: 1}}}
Y

sh_ "echo '{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"$NS\"}}' | kubectl create -f -"
kubectl config set-context --current --namespace=$NS >/dev/null
k get gadgets
k create -f crd.yaml
k wait crd/gadgets.session.example.com --for=condition=Established --timeout=20s
k apply -f crd.yaml
k get crd gadgets.session.example.com
k get crd gadgets.session.example.com -o 'jsonpath={.status.acceptedNames}{.status.storedVersions}{"\n"}{range .status.conditions[*]}{.type}={.status}:{.reason} {end}{"\n"}'
# kubectl validates by what the server publishes, which Kubernetes does a little after it serves the kind.
for _ in $(seq 100); do kubectl explain gadget >/dev/null 2>&1 && break; sleep 0.2; done

k apply -f gadget.yaml
k apply -f gadget.yaml
sed -i 's/colour: red/colour: blue/; s/, {name: dns, port: 53, protocol: UDP}//; /ratio/d' gadget.yaml
k diff -f gadget.yaml
k apply -f gadget.yaml
k apply -f gadget.yaml
k get gd one -o yaml
k get gd one -o json
sh_ "kubectl create -f bad.yaml 2>&1 | sort"
k create -f rules.yaml
k create -f unknown.yaml
k create --validate=warn -f unknown.yaml
k get gd unknown -o 'jsonpath={.spec}{"\n"}'
k create --validate=ignore -f unknown.yaml
k delete gd unknown
k get gadgets
k get gd -o wide
k get all
k get things -o name
k get gadgets.v1alpha1.session.example.com one -o 'jsonpath={.apiVersion} {.spec.colour}{"\n"}'
k get gd --field-selector spec.colour=blue -o name
k get gd --field-selector spec.colour!=blue -o name
k get gd --field-selector spec.name=abc -o name
k get gd -l app=x -o 'custom-columns=NAME:.metadata.name,COLOUR:.spec.colour'
k get gd one -o 'jsonpath={.metadata.generation}{"\n"}'

k patch gd one --type merge -p '{"spec":{"colour":"green","labels":{"k":null,"n":"1"}}}'
k patch gd one --type json -p '[{"op":"add","path":"/spec/tags/-","value":"c"}]'
k patch gd one --type json -p '[{"op":"add","path":"/spec/tags/-","value":"d"}]'
k patch gd one --type merge -p '{"spec":{"serial":"s-2"}}'
k patch gd one --type merge -p '{"spec":{"serial":null}}'
k patch gd one --type merge -p '{"spec":{"colour":"pink"}}'
k patch gd one --type merge -p '{"status":{"replicas":3}}'
k get gd one -o 'jsonpath={.metadata.generation}{.status}{"\n"}'
k patch gd one --subresource=status --type merge -p '{"status":{"replicas":3,"selector":"app=x","conditions":[{"type":"Ready","status":"True"}]},"spec":{"colour":"red"},"metadata":{"labels":{"z":"z"}}}'
k get gd one --show-labels
k wait gd/one --for=condition=Ready --timeout=5s
k wait gd/one --for=jsonpath='{.spec.colour}'=green --timeout=5s
k scale gd one --replicas=4
k scale gd one --replicas=40
k get gd one --subresource=scale -o 'jsonpath={.spec}{.status}{"\n"}'
k label gd one tier=back
k annotate gd one note=hello
sh_ "KUBE_EDITOR='sed -i s/green/blue/' kubectl edit gd one"
k get gd one -o 'jsonpath={.spec.colour} {.metadata.generation}{"\n"}'
sh_ "kubectl get gd one -o json | sed 's/\"blue\"/\"red\"/' | kubectl replace -f -"
sh_ "kubectl get gd one -o json | sed 's/\"resourceVersion\": \"[0-9]*\"/\"resourceVersion\": \"1\"/' | kubectl replace -f -"
k replace -f rules.yaml
sh_ "kubectl describe gd one | grep -v -e Timestamp -e UID -e 'Resource Version'"
k explain gadget
k explain gadget.spec
k explain gadget.spec.ports
k explain gd --recursive
k explain gadget.spec.colour
k explain gadget --api-version=session.example.com/v1alpha1
sh_ "kubectl api-resources --api-group=session.example.com"
sh_ "kubectl api-resources --categories=things --no-headers | tr -s ' '"
sh_ "kubectl api-versions | grep session"

# A definition changes: a new field with a default is seen at once, on old objects too.
sed -i 's/enabled: {type: boolean, default: true}/&\n              added: {type: string, default: later}/' crd.yaml
k apply -f crd.yaml
sh_ "for i in \$(seq 50); do [ \"\$(kubectl get gd one -o 'jsonpath={.spec.added}')\" = later ] && break; sleep 0.2; done; kubectl get gd one -o 'jsonpath={.spec.added}{\"\\n\"}'"

# Definitions that cannot be.
k patch crd gadgets.session.example.com --type merge -p '{"spec":{"scope":"Cluster"}}'
k patch crd gadgets.session.example.com --type json -p '[{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/type"}]'
sh_ "sed 's/gadgets/Gadgets/' crd.yaml | kubectl create -f -"

# The end: an object that holds on keeps its kind alive.
k patch gd one --type merge -p '{"metadata":{"finalizers":["example.com/hold"]}}'
k delete crd gadgets.session.example.com --wait=false
sh_ "for i in \$(seq 50); do [ -n \"\$(kubectl get gd one -o 'jsonpath={.metadata.deletionTimestamp}')\" ] && break; sleep 0.2; done; kubectl get gd one -o 'jsonpath={.metadata.finalizers}{\"\\n\"}'"
k get crd gadgets.session.example.com -o 'jsonpath={.metadata.finalizers}{range .status.conditions[*]}{.type}={.status} {end}{"\n"}'
k patch gd one --type merge -p '{"metadata":{"finalizers":null}}'
sh_ "kubectl wait crd/gadgets.session.example.com --for=delete --timeout=30s >/dev/null"
sh_ "for i in \$(seq 50); do kubectl get gadgets 2>&1 | grep -q 'have a resource type' && break; sleep 0.2; done; kubectl get gadgets"
k delete ns $NS
echo "--- end"
