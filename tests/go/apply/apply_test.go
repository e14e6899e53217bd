// Package apply has server-side apply as Go programs use it: typed configurations, the dynamic client, and
// controller-runtime; and who is said to own what.
package apply

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"bellwether.test/clients/place"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func by(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }

// owners are who manages an object, with what they did, in order.
func owners(object metav1.Object) []string {
	var owners []string
	for _, entry := range object.GetManagedFields() {
		owners = append(owners, entry.Manager+" "+string(entry.Operation)+" "+entry.Subresource)
	}
	slices.Sort(owners)
	return owners
}

func web(namespace string) *applyappsv1.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "web"}
	return applyappsv1.Deployment("web", namespace).WithSpec(applyappsv1.DeploymentSpec().
		WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(applycorev1.PodTemplateSpec().WithLabels(labels).WithSpec(applycorev1.PodSpec().
			WithContainers(applycorev1.Container().WithName("web").WithImage("example.com/web:1").
				WithPorts(applycorev1.ContainerPort().WithContainerPort(8080))))))
}

func TestTwoWhoApplyShareAnObject(t *testing.T) {
	p := place.New(t)
	maps := p.Client.CoreV1().ConfigMaps(p.Namespace)
	mine := applycorev1.ConfigMap("a", p.Namespace).WithData(map[string]string{"mine": "1", "shared": "x"})
	made, err := maps.Apply(p.Ctx, mine, by("me"))
	p.Check(err)
	again, err := maps.Apply(p.Ctx, mine, by("me"))
	p.Check(err)
	if again.ResourceVersion != made.ResourceVersion {
		t.Fatal("applying the same leaves a trace")
	}
	yours := applycorev1.ConfigMap("a", p.Namespace).WithData(map[string]string{"yours": "2", "shared": "y"})
	if _, err = maps.Apply(p.Ctx, yours, by("you")); !apierrors.IsConflict(err) {
		t.Fatalf("a field of somebody else: %v", err)
	}
	shared, err := maps.Apply(p.Ctx, yours, metav1.ApplyOptions{FieldManager: "you", Force: true})
	p.Check(err)
	if shared.Data["shared"] != "y" || shared.Data["mine"] != "1" || !slices.Equal(owners(shared), []string{"me Apply ", "you Apply "}) {
		t.Fatalf("%v %v", shared.Data, owners(shared))
	}
	// What is no longer applied goes, if nobody else owns it.
	left, err := maps.Apply(p.Ctx, applycorev1.ConfigMap("a", p.Namespace).WithData(map[string]string{"shared": "y"}), by("me"))
	p.Check(err)
	if _, found := left.Data["mine"]; found || left.Data["yours"] != "2" {
		t.Fatalf("%v", left.Data)
	}

	// One who updates, in protobuf, takes what he changes.
	left.Data["yours"] = "changed"
	updated, err := maps.Update(p.Ctx, left, metav1.UpdateOptions{FieldManager: "third"})
	p.Check(err)
	if !slices.Equal(owners(updated), []string{"me Apply ", "third Update ", "you Apply "}) {
		t.Fatalf("%v", owners(updated))
	}
	if _, err = maps.Apply(p.Ctx, yours, by("you")); !apierrors.IsConflict(err) {
		t.Fatalf("what was changed meanwhile: %v", err)
	}
}

func TestWhatIsExtractedCanBeAppliedAgain(t *testing.T) {
	p := place.New(t)
	deployments := p.Client.AppsV1().Deployments(p.Namespace)
	made, err := deployments.Apply(p.Ctx, web(p.Namespace), by("me"))
	p.Check(err)
	if *made.Spec.Replicas != 1 || made.Spec.Template.Spec.Containers[0].Ports[0].Protocol != corev1.ProtocolTCP {
		t.Fatalf("%+v", made.Spec)
	}
	extracted, err := applyappsv1.ExtractDeployment(made, "me")
	p.Check(err)
	if extracted.Spec.Replicas != nil || len(extracted.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("more than was applied: %+v", extracted.Spec)
	}
	extracted.Spec.WithReplicas(2)
	scaled, err := deployments.Apply(p.Ctx, extracted, by("me"))
	p.Check(err)
	if *scaled.Spec.Replicas != 2 || scaled.Generation != 2 {
		t.Fatalf("%+v", scaled.Spec)
	}

	status := applyappsv1.Deployment("web", p.Namespace).WithStatus(applyappsv1.DeploymentStatus().WithReplicas(2))
	reported, err := deployments.ApplyStatus(p.Ctx, status, by("reporter"))
	p.Check(err)
	if reported.Status.Replicas != 2 || !slices.Equal(owners(reported), []string{"me Apply ", "reporter Apply status"}) {
		t.Fatalf("%+v %v", reported.Status, owners(reported))
	}

	// A second container by another; lists are merged by their keys.
	side := applyappsv1.Deployment("web", p.Namespace).WithSpec(applyappsv1.DeploymentSpec().WithTemplate(
		applycorev1.PodTemplateSpec().WithSpec(applycorev1.PodSpec().WithContainers(
			applycorev1.Container().WithName("side").WithImage("example.com/side:1")))))
	both, err := deployments.Apply(p.Ctx, side, by("injector"))
	p.Check(err)
	if len(both.Spec.Template.Spec.Containers) != 2 {
		t.Fatalf("%+v", both.Spec.Template.Spec.Containers)
	}
}

func TestTheDynamicClientApplies(t *testing.T) {
	p := place.New(t)
	clients, err := dynamic.NewForConfig(p.Config)
	p.Check(err)
	maps := clients.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(p.Namespace)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"key": "1"},
	}}
	made, err := maps.Apply(p.Ctx, "a", object, by("me"))
	p.Check(err)
	if !slices.Equal(owners(made), []string{"me Apply "}) {
		t.Fatalf("%v", owners(made))
	}
	p.Check(unstructured.SetNestedField(object.Object, "2", "data", "key"))
	if _, err = maps.Apply(p.Ctx, "a", object, by("you")); !apierrors.IsConflict(err) {
		t.Fatalf("a field of somebody else: %v", err)
	}
}

func TestControllerRuntimeApplies(t *testing.T) {
	p := place.New(t)
	to, err := client.New(p.Config, client.Options{})
	p.Check(err)
	mine := applycorev1.ConfigMap("a", p.Namespace).WithData(map[string]string{"key": "1"})
	p.Check(to.Apply(p.Ctx, mine, client.FieldOwner("me")))
	yours := applycorev1.ConfigMap("a", p.Namespace).WithData(map[string]string{"key": "2"})
	if err := to.Apply(p.Ctx, yours, client.FieldOwner("you")); !apierrors.IsConflict(err) {
		t.Fatalf("a field of somebody else: %v", err)
	}
	p.Check(to.Apply(p.Ctx, yours, client.FieldOwner("you"), client.ForceOwnership))

	p.Check(to.Apply(p.Ctx, web(p.Namespace), client.FieldOwner("me")))
	status := applyappsv1.Deployment("web", p.Namespace).WithStatus(applyappsv1.DeploymentStatus().WithReplicas(1))
	p.Check(to.Status().Apply(p.Ctx, status, client.FieldOwner("reporter")))

	// The fields of one who only creates are his as well.
	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "b"}, Data: map[string]string{"key": "1"}}
	p.Check(to.Create(p.Ctx, made, client.FieldOwner("creator")))
	var fields map[string]any
	p.Check(json.Unmarshal(made.ManagedFields[0].FieldsV1.GetRawBytes(), &fields))
	if _, found := fields["f:data"].(map[string]any)["f:key"]; !found || !slices.Equal(owners(made), []string{"creator Update "}) {
		t.Fatalf("%v %v", owners(made), fields)
	}
}
