package manager

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"bellwether.test/clients/place"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// start runs a manager with a copier in a place; what is returned stops it and waits for its end.
func start(p place.Place, name string) (ctrl.Manager, func()) {
	p.Helper()
	lease, renew, retry := 3*time.Second, 2*time.Second, 200*time.Millisecond
	made, err := ctrl.NewManager(rest.CopyConfig(p.Config), ctrl.Options{
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{p.Namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "copier",
		LeaderElectionNamespace: p.Namespace,
		LeaseDuration:           &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		LeaderElectionReleaseOnCancel: true,
	})
	p.Check(err)
	p.Check((&Copier{Client: made.GetClient(), Name: name}).SetUp(made))
	ctx, cancel := context.WithCancel(p.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- made.Start(ctx) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			p.Check(<-ended)
		}
	}
	p.Cleanup(stop)
	return made, stop
}

// direct is a client without a cache.
func direct(p place.Place) client.Client {
	p.Helper()
	made, err := client.New(p.Config, client.Options{})
	p.Check(err)
	return made
}

func source(p place.Place, name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name, Labels: map[string]string{Label: "yes"}},
		Data:       map[string]string{"key": value},
	}
}

// copied is whether there is a copy with this value, made by this copier if one is named.
func copied(p place.Place, from client.Client, name, value, by string) func() bool {
	return func() bool {
		var secret corev1.Secret
		err := from.Get(p.Ctx, client.ObjectKey{Namespace: p.Namespace, Name: name}, &secret)
		p.Check(client.IgnoreNotFound(err))
		if value == "" {
			return apierrors.IsNotFound(err)
		}
		return err == nil && string(secret.Data["key"]) == value && (by == "" || secret.Annotations["example.com/by"] == by)
	}
}

func TestAControllerCopiesAndRepairs(t *testing.T) {
	p := place.New(t)
	start(p, "one")
	to := direct(p)
	from := source(p, "a", "1")
	p.Check(to.Create(p.Ctx, from))
	p.Eventually("the copy is made", copied(p, to, "a", "1", "one"))

	changed := from.DeepCopy()
	changed.Data["key"] = "2"
	p.Check(to.Patch(p.Ctx, changed, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})))
	p.Eventually("the copy follows", copied(p, to, "a", "2", ""))
	if err := to.Patch(p.Ctx, changed.DeepCopy(), client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})); !apierrors.IsConflict(err) {
		t.Fatalf("a stale patch: %v", err)
	}

	var secret corev1.Secret
	p.Check(to.Get(p.Ctx, client.ObjectKeyFromObject(from), &secret))
	secret.Data["key"] = []byte("spoiled")
	p.Check(to.Update(p.Ctx, &secret))
	p.Eventually("the copy is repaired", copied(p, to, "a", "2", ""))
	p.Check(to.Delete(p.Ctx, &secret))
	p.Eventually("the copy is made again", copied(p, to, "a", "2", ""))

	p.Check(to.Delete(p.Ctx, from, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	p.Eventually("the copy goes with the original", copied(p, to, "a", "", ""))
}

func TestOnlyTheLeaderWorksAndAnotherTakesOver(t *testing.T) {
	p := place.New(t)
	to := direct(p)
	_, stopOne := start(p, "one")
	p.Check(to.Create(p.Ctx, source(p, "a", "1")))
	p.Eventually("the first one leads", copied(p, to, "a", "1", "one"))
	two, _ := start(p, "two")
	// The cache of the second runs although it does not lead.
	p.Eventually("the second one sees", func() bool { return two.GetCache().WaitForCacheSync(p.Ctx) })
	p.Check(to.Create(p.Ctx, source(p, "b", "2")))
	p.Eventually("still the first one leads", copied(p, to, "b", "2", "one"))

	var lease coordinationv1.Lease
	at := client.ObjectKey{Namespace: p.Namespace, Name: "copier"}
	p.Check(to.Get(p.Ctx, at, &lease))
	held := *lease.Spec.HolderIdentity
	stopOne()
	p.Check(to.Create(p.Ctx, source(p, "c", "3")))
	p.Eventually("the second one took over", copied(p, to, "c", "3", "two"))
	p.Check(to.Get(p.Ctx, at, &lease))
	if *lease.Spec.HolderIdentity == held || *lease.Spec.LeaseTransitions < 1 {
		t.Fatalf("%+v", lease.Spec)
	}
}

func TestACacheServesTypedUnstructuredAndMetadata(t *testing.T) {
	p := place.New(t)
	to := direct(p)
	for _, name := range []string{"a", "b"} {
		p.Check(to.Create(p.Ctx, source(p, name, name)))
	}
	made, _ := start(p, "one")
	p.Check(made.GetFieldIndexer().IndexField(p.Ctx, &corev1.ConfigMap{}, "data.key", func(object client.Object) []string {
		return []string{object.(*corev1.ConfigMap).Data["key"]}
	}))
	if !made.GetCache().WaitForCacheSync(p.Ctx) {
		t.Fatal("the cache did not get its objects")
	}
	reader := made.GetCache()
	labelled := client.HasLabels{Label}

	var typed corev1.ConfigMapList
	p.Check(reader.List(p.Ctx, &typed, labelled, client.InNamespace(p.Namespace)))
	raw := unstructured.UnstructuredList{}
	raw.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	p.Check(reader.List(p.Ctx, &raw, labelled, client.InNamespace(p.Namespace)))
	partial := metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	p.Check(reader.List(p.Ctx, &partial, labelled, client.InNamespace(p.Namespace)))
	if len(typed.Items) != 2 || len(raw.Items) != 2 || len(partial.Items) != 2 {
		t.Fatalf("%d typed, %d unstructured, %d with metadata alone", len(typed.Items), len(raw.Items), len(partial.Items))
	}
	p.Check(reader.List(p.Ctx, &typed, client.MatchingFields{"data.key": "b"}, client.InNamespace(p.Namespace)))
	if len(typed.Items) != 1 || typed.Items[0].Name != "b" {
		t.Fatalf("by an index: %+v", typed.Items)
	}
}

func TestAClientWritesTypedAndUnstructured(t *testing.T) {
	p := place.New(t)
	to := direct(p)
	replicas := int32(2)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
			},
		},
	}
	p.Check(to.Create(p.Ctx, deployment))
	deployment.Status.Replicas = 2
	p.Check(to.Status().Update(p.Ctx, deployment))
	before := deployment.DeepCopy()
	deployment.Status.ReadyReplicas = 1
	p.Check(to.Status().Patch(p.Ctx, deployment, client.StrategicMergeFrom(before)))

	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	p.Check(to.Get(p.Ctx, client.ObjectKeyFromObject(deployment), raw))
	ready, _, err := unstructured.NestedInt64(raw.Object, "status", "readyReplicas")
	p.Check(err)
	if ready != 1 {
		t.Fatalf("%+v", raw.Object["status"])
	}
	p.Check(unstructured.SetNestedField(raw.Object, int64(0), "spec", "replicas"))
	p.Check(to.Update(p.Ctx, raw))
	p.Check(to.Get(p.Ctx, client.ObjectKeyFromObject(deployment), deployment))
	if *deployment.Spec.Replicas != 0 || deployment.Status.ReadyReplicas != 1 {
		t.Fatalf("%+v", deployment)
	}

	for _, name := range []string{"a", "b"} {
		p.Check(to.Create(p.Ctx, source(p, name, name)))
	}
	p.Check(to.DeleteAllOf(p.Ctx, &corev1.ConfigMap{}, client.InNamespace(p.Namespace), client.HasLabels{Label}))
	var left corev1.ConfigMapList
	p.Check(to.List(p.Ctx, &left, client.InNamespace(p.Namespace), client.HasLabels{Label}))
	if len(left.Items) != 0 {
		t.Fatalf("%+v", left.Items)
	}
	p.Check(to.Delete(p.Ctx, deployment))
	if err := to.Get(p.Ctx, client.ObjectKeyFromObject(deployment), deployment); !apierrors.IsNotFound(err) {
		t.Fatalf("after its deletion: %v", err)
	}
}
