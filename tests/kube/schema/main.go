// Command schema prints the wire shape of built-in Kubernetes kinds as the JSON that the embedded API server
// decodes them by (crates/apiserver/data/builtins.json): read from their Go types, and completed by what
// Kubernetes' OpenAPI says of them. With -docs it prints their descriptions (builtin-docs.json, next to it),
// which only few readers want and which are most of the bytes; with -roles, the roles that every cluster has from
// its start (roles.json). It knows neither validation nor the defaults that Kubernetes sets in code.
//
// To regenerate, and to check that a committed file is current, from the root of the repository:
//
//	go run -C tests/kube ./schema >crates/apiserver/data/builtins.json
//	go run -C tests/kube ./schema -docs >crates/apiserver/data/builtin-docs.json
//	go run -C tests/kube ./schema -roles >crates/apiserver/data/roles.json
//	go run -C tests/kube ./schema | diff crates/apiserver/data/builtins.json -
//
// The output is
//
//	source     the modules it was read from
//	kinds      group, version, kind, and the name of the type
//	resources  where and how the kinds are served, with their subresources; see servedKind
//	types      per type, by name, the fields of the struct in order
//	schemas    per type, special ones too, its name in OpenAPI, and mapType "atomic" where set
//
// and with -docs, per type, its description as "" and those of its fields.
//
// A type is named by its package, shortened, and its Go name: "core/v1.ConfigMap". What follows the last
// slash is what Go itself prints in an error ("v1.ConfigMap"). A field has
//
//	json           its name on the wire; absent if inline
//	go             its name in Go
//	type           see typeRef
//	pointer        true: null, absent and zero differ
//	omitempty      true: left out when empty (never for a struct that is not a pointer)
//	omitzero       true: left out when zero, also a struct
//	inline         true: an embedded struct whose fields stand in this one's place in JSON; in protobuf it is a
//	               message of its own, or absent if it has no number
//	proto          its protobuf field number; absent if it is not on that wire
//	patchStrategy, patchMergeKey   as strategic merge patch wants them, where set
//	required       true: OpenAPI lists it as required
//	default        OpenAPI's default. A zero value ({}, "", 0, false) says no more than that it is not nullable.
//	format, enum   OpenAPI's, of its elements if it is a list or map
//	listType, listMapKeys, mapType   as server-side apply wants them, where set
//
// OpenAPI gives elements of lists and maps a default as well, always their zero value, if they are structs,
// strings, booleans or numbers; the file leaves it out.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"log"
	"os"
	"reflect"
	"runtime/debug"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// kinds are what clients send and receive as whole objects.
var kinds = []struct {
	schema.GroupVersion
	object runtime.Object
}{
	{corev1.SchemeGroupVersion, &corev1.Namespace{}},
	{corev1.SchemeGroupVersion, &corev1.ConfigMap{}},
	{corev1.SchemeGroupVersion, &corev1.Secret{}},
	{corev1.SchemeGroupVersion, &corev1.Event{}},
	{corev1.SchemeGroupVersion, &corev1.ServiceAccount{}},
	{corev1.SchemeGroupVersion, &corev1.Service{}},
	{corev1.SchemeGroupVersion, &corev1.Endpoints{}},
	{corev1.SchemeGroupVersion, &corev1.Node{}},
	{corev1.SchemeGroupVersion, &corev1.Pod{}},
	{corev1.SchemeGroupVersion, &corev1.PodTemplate{}},
	{corev1.SchemeGroupVersion, &corev1.ResourceQuota{}},
	{corev1.SchemeGroupVersion, &corev1.LimitRange{}},
	{corev1.SchemeGroupVersion, &corev1.PersistentVolume{}},
	{corev1.SchemeGroupVersion, &corev1.PersistentVolumeClaim{}},
	{corev1.SchemeGroupVersion, &corev1.ReplicationController{}},
	{appsv1.SchemeGroupVersion, &appsv1.Deployment{}},
	{appsv1.SchemeGroupVersion, &appsv1.ReplicaSet{}},
	{appsv1.SchemeGroupVersion, &appsv1.StatefulSet{}},
	{appsv1.SchemeGroupVersion, &appsv1.DaemonSet{}},
	{appsv1.SchemeGroupVersion, &appsv1.ControllerRevision{}},
	{batchv1.SchemeGroupVersion, &batchv1.Job{}},
	{batchv1.SchemeGroupVersion, &batchv1.CronJob{}},
	{autoscalingv1.SchemeGroupVersion, &autoscalingv1.Scale{}},
	{autoscalingv2.SchemeGroupVersion, &autoscalingv2.HorizontalPodAutoscaler{}},
	{autoscalingv1.SchemeGroupVersion, &autoscalingv1.HorizontalPodAutoscaler{}},
	{policyv1.SchemeGroupVersion, &policyv1.PodDisruptionBudget{}},
	{policyv1.SchemeGroupVersion, &policyv1.Eviction{}},
	{schedulingv1.SchemeGroupVersion, &schedulingv1.PriorityClass{}},
	{discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{}},
	{eventsv1.SchemeGroupVersion, &eventsv1.Event{}},
	{coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}},
	{rbacv1.SchemeGroupVersion, &rbacv1.Role{}},
	{rbacv1.SchemeGroupVersion, &rbacv1.ClusterRole{}},
	{rbacv1.SchemeGroupVersion, &rbacv1.RoleBinding{}},
	{rbacv1.SchemeGroupVersion, &rbacv1.ClusterRoleBinding{}},
	{authenticationv1.SchemeGroupVersion, &authenticationv1.TokenReview{}},
	{authenticationv1.SchemeGroupVersion, &authenticationv1.TokenRequest{}},
	{authenticationv1.SchemeGroupVersion, &authenticationv1.SelfSubjectReview{}},
	{authorizationv1.SchemeGroupVersion, &authorizationv1.SubjectAccessReview{}},
	{authorizationv1.SchemeGroupVersion, &authorizationv1.LocalSubjectAccessReview{}},
	{authorizationv1.SchemeGroupVersion, &authorizationv1.SelfSubjectAccessReview{}},
	{authorizationv1.SchemeGroupVersion, &authorizationv1.SelfSubjectRulesReview{}},
	{certificatesv1.SchemeGroupVersion, &certificatesv1.CertificateSigningRequest{}},
	{networkingv1.SchemeGroupVersion, &networkingv1.Ingress{}},
	{networkingv1.SchemeGroupVersion, &networkingv1.IngressClass{}},
	{networkingv1.SchemeGroupVersion, &networkingv1.NetworkPolicy{}},
	{networkingv1.SchemeGroupVersion, &networkingv1.ServiceCIDR{}},
	{networkingv1.SchemeGroupVersion, &networkingv1.IPAddress{}},
	{storagev1.SchemeGroupVersion, &storagev1.StorageClass{}},
	{storagev1.SchemeGroupVersion, &storagev1.CSINode{}},
	{storagev1.SchemeGroupVersion, &storagev1.CSIDriver{}},
	{storagev1.SchemeGroupVersion, &storagev1.CSIStorageCapacity{}},
	{storagev1.SchemeGroupVersion, &storagev1.VolumeAttachment{}},
	{storagev1.SchemeGroupVersion, &storagev1.VolumeAttributesClass{}},
	{nodev1.SchemeGroupVersion, &nodev1.RuntimeClass{}},
	{resourcev1.SchemeGroupVersion, &resourcev1.DeviceClass{}},
	{resourcev1.SchemeGroupVersion, &resourcev1.ResourceClaim{}},
	{resourcev1.SchemeGroupVersion, &resourcev1.ResourceClaimTemplate{}},
	{resourcev1.SchemeGroupVersion, &resourcev1.ResourceSlice{}},
	{flowcontrolv1.SchemeGroupVersion, &flowcontrolv1.FlowSchema{}},
	{flowcontrolv1.SchemeGroupVersion, &flowcontrolv1.PriorityLevelConfiguration{}},
	{admissionregistrationv1.SchemeGroupVersion, &admissionregistrationv1.ValidatingWebhookConfiguration{}},
	{admissionregistrationv1.SchemeGroupVersion, &admissionregistrationv1.MutatingWebhookConfiguration{}},
	{admissionregistrationv1.SchemeGroupVersion, &admissionregistrationv1.ValidatingAdmissionPolicy{}},
	{admissionregistrationv1.SchemeGroupVersion, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}},
	{admissionregistrationv1.SchemeGroupVersion, &admissionregistrationv1.MutatingAdmissionPolicy{}},
	{admissionregistrationv1.SchemeGroupVersion, &admissionregistrationv1.MutatingAdmissionPolicyBinding{}},
	{apiextensionsv1.SchemeGroupVersion, &apiextensionsv1.CustomResourceDefinition{}},
	{apiregistrationv1.SchemeGroupVersion, &apiregistrationv1.APIService{}},
	{metav1.Unversioned, &metav1.DeleteOptions{}},
	{metav1.Unversioned, &metav1.Status{}},
}

// parts are wanted by themselves although no client sends them alone.
var parts = []any{
	metav1.ObjectMeta{},
	metav1.ListMeta{},
}

type kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Type    string `json:"type"`
}

func main() {
	log.SetFlags(0)
	onlyDocs := flag.Bool("docs", false, "print the descriptions instead of the shapes")
	onlyRoles := flag.Bool("roles", false, "print the roles that every cluster has instead of the shapes")
	flag.Parse()

	var out bytes.Buffer
	switch {
	case *onlyRoles:
		renderRoles(&out)
	case *onlyDocs:
		describe().renderDocs(&out)
	default:
		describe().render(&out)
	}
	if !json.Valid(out.Bytes()) {
		log.Fatal("the output is not JSON")
	}
	if _, err := os.Stdout.Write(out.Bytes()); err != nil {
		log.Fatal(err)
	}
}

// content is what the two files say.
type content struct {
	kinds     []kind
	resources []servedKind
	structs   map[string]*structType
	schemas   map[string]typeFacts
	docs      map[string]docs
}

func describe() content {
	catalog := newCatalog()
	var rows []kind
	for _, k := range kinds {
		t := reflect.TypeOf(k.object).Elem()
		rows = append(rows, kind{k.Group, k.Version, t.Name(), catalog.addStruct(t)})
	}
	for _, part := range parts {
		catalog.addStruct(reflect.TypeOf(part))
	}

	openAPI := loadOpenAPI()
	schemas, docs := map[string]typeFacts{}, map[string]docs{}
	for name, s := range catalog.structs {
		openAPI.complete(name, catalog)
		schemas[name] = openAPI.typeFacts(s.is)
		docs[name] = openAPI.docs(s.is, s.fields)
	}
	for t, name := range special {
		schemas[name] = openAPI.typeFacts(t)
		docs[name] = openAPI.docs(t, nil)
	}
	return content{
		kinds:     rows,
		resources: resources(rows),
		structs:   catalog.structs,
		schemas:   schemas,
		docs:      docs,
	}
}

// sources are the modules that the file is read from.
var sources = []string{
	"k8s.io/api",
	"k8s.io/apiextensions-apiserver",
	"k8s.io/apimachinery",
	"k8s.io/kube-aggregator",
	"k8s.io/kubernetes",
}

// source names the sources with their versions.
func source() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		log.Fatal("this program was built without module information")
	}
	var modules []string
	for _, module := range info.Deps {
		if slices.Contains(sources, module.Path) {
			modules = append(modules, module.Path+" "+cmp.Or(module.Replace, module).Version)
		}
	}
	return modules
}
