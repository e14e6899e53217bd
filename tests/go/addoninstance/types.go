// Package addoninstance is an add-on's side of heartbeats, as a Go program has it: the type on the wire, and one pulse.
package addoninstance

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is that of all kinds here.
var GroupVersion = schema.GroupVersion{Group: "addons.managed.openshift.io", Version: "v1alpha1"}

// Conditions of an AddonInstance.
const (
	Healthy          = "addons.managed.openshift.io/Healthy"
	Degraded         = "addons.managed.openshift.io/Degraded"
	Installed        = "addons.managed.openshift.io/Installed"
	ReadyToBeDeleted = "addons.managed.openshift.io/ReadyToBeDeleted"
)

// AddonInstance is where an add-on beats.
type AddonInstance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Spec is what the add-on is asked for. Go cannot leave the period out: unset, it is sent as "0s".
type Spec struct {
	MarkedForDeletion     bool            `json:"markedForDeletion"`
	HeartbeatUpdatePeriod metav1.Duration `json:"heartbeatUpdatePeriod,omitempty"`
}

// Status is what the add-on says. Go cannot leave the time out: unset, it is sent as null.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	LastHeartbeatTime  metav1.Time        `json:"lastHeartbeatTime"`
}

// List is a list of them.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []AddonInstance `json:"items"`
}

// DeepCopyInto copies everything.
func (in *AddonInstance) DeepCopyInto(out *AddonInstance) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	in.Status.LastHeartbeatTime.DeepCopyInto(&out.Status.LastHeartbeatTime)
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for place := range in.Status.Conditions {
			in.Status.Conditions[place].DeepCopyInto(&out.Status.Conditions[place])
		}
	}
}

// DeepCopyObject makes it a runtime.Object.
func (in *AddonInstance) DeepCopyObject() runtime.Object {
	out := new(AddonInstance)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject makes it a runtime.Object.
func (in *List) DeepCopyObject() runtime.Object {
	out := &List{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]AddonInstance, len(in.Items))
		for place := range in.Items {
			in.Items[place].DeepCopyInto(&out.Items[place])
		}
	}
	return out
}

// NewScheme knows the kinds here, and no others: they are sent as JSON.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(GroupVersion.WithKind("AddonInstance"), &AddonInstance{})
	scheme.AddKnownTypeWithName(GroupVersion.WithKind("AddonInstanceList"), &List{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return scheme
}
