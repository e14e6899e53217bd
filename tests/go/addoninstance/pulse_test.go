package addoninstance

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// place is a namespace of its own in the cluster that KUBECONFIG names.
type place struct {
	*testing.T
	ctx       context.Context
	config    *rest.Config
	client    client.WithWatch
	namespace string
}

func newPlace(t *testing.T) place {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(t, err)
	to, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme()})
	check(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "go-"},
	}}
	check(t, to.Create(ctx, namespace))
	return place{T: t, ctx: ctx, config: config, client: to, namespace: namespace.GetName()}
}

// install makes the instance with this period, and returns it as the server has it.
func (p place) install(period time.Duration) AddonInstance {
	p.Helper()
	instance := &AddonInstance{ObjectMeta: metav1.ObjectMeta{Name: "addon-instance", Namespace: p.namespace}}
	instance.Spec.HeartbeatUpdatePeriod = metav1.Duration{Duration: period}
	check(p.T, p.client.Create(p.ctx, instance))
	return p.stored()
}

func (p place) stored() AddonInstance {
	p.Helper()
	var instance AddonInstance
	check(p.T, p.client.Get(p.ctx, client.ObjectKey{Namespace: p.namespace, Name: "addon-instance"}, &instance))
	return instance
}

// await asks until the condition has this status and reason.
func (p place) await(kind string, status metav1.ConditionStatus, reason string) {
	p.Helper()
	deadline := time.Now().Add(patience)
	for {
		condition := meta.FindStatusCondition(p.stored().Status.Conditions, kind)
		if condition != nil && condition.Status == status && condition.Reason == reason {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s is not %s/%s within %s: %+v", kind, status, reason, patience, condition)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The bytes that the tests in crates/heartbeat/tests/client/bytes.rs replay.
func TestAnObjectWithNothingSetIsEncodedAsTheReplayHasIt(t *testing.T) {
	instance := AddonInstance{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: "AddonInstance"},
		ObjectMeta: metav1.ObjectMeta{Name: "addon-instance", Namespace: "ns"},
	}
	encoded, err := json.Marshal(instance)
	check(t, err)
	wanted := `{"kind":"AddonInstance","apiVersion":"addons.managed.openshift.io/v1alpha1",` +
		`"metadata":{"name":"addon-instance","namespace":"ns"},` +
		`"spec":{"markedForDeletion":false,"heartbeatUpdatePeriod":"0s"},"status":{"lastHeartbeatTime":null}}`
	if string(encoded) != wanted {
		t.Fatalf("%s\nis not\n%s", encoded, wanted)
	}
}

func TestAnInstanceWithNothingSetIsStoredWithAPeriodOf0s(t *testing.T) {
	p := newPlace(t)
	p.install(0)
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(GroupVersion.WithKind("AddonInstance"))
	check(t, p.client.Get(p.ctx, client.ObjectKey{Namespace: p.namespace, Name: "addon-instance"}, raw))
	period, _, err := unstructured.NestedString(raw.Object, "spec", "heartbeatUpdatePeriod")
	check(t, err)
	if period != "0s" {
		t.Fatalf("the period is %q", period)
	}
	if _, found := raw.Object["status"]; found {
		t.Fatalf("there is a status: %v", raw.Object["status"])
	}
}

func TestAPulseArrivesAndAStaleCopyConflicts(t *testing.T) {
	p := newPlace(t)
	read := p.install(10 * time.Second)
	check(t, Pulse(p.ctx, p.client, read))
	first := p.stored()
	if age := time.Since(first.Status.LastHeartbeatTime.Time); age < -time.Second || age > patience {
		t.Fatalf("the stamp is %s old", age)
	}
	if len(first.Status.Conditions) != 0 && first.Status.Conditions[0].Reason != "ReceivingHeartbeats" {
		t.Fatalf("a pulse says nothing else: %+v", first.Status.Conditions)
	}
	if err := Pulse(p.ctx, p.client, read); !apierrors.IsConflict(err) {
		t.Fatalf("a stale copy: %v", err)
	}
	// As add-ons do it that share the status with a checker.
	check(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return Pulse(p.ctx, p.client, p.stored(), condition(Installed, metav1.ConditionTrue))
	}))
}

func condition(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: "ByGo", Message: "All Components Available"}
}

func TestAPulseWithThreeConditionsIsStoredExactly(t *testing.T) {
	p := newPlace(t)
	p.install(10 * time.Second)
	said := []metav1.Condition{
		condition(Installed, metav1.ConditionFalse),
		condition(Degraded, metav1.ConditionTrue),
		condition(ReadyToBeDeleted, metav1.ConditionTrue),
	}
	check(t, Pulse(p.ctx, p.client, p.stored(), said...))
	stored := p.stored()
	for _, wanted := range said {
		found := meta.FindStatusCondition(stored.Status.Conditions, wanted.Type)
		if found == nil {
			t.Fatalf("%s is missing: %+v", wanted.Type, stored.Status.Conditions)
		}
		wanted.ObservedGeneration, wanted.LastTransitionTime = stored.Generation, found.LastTransitionTime
		if *found != wanted {
			t.Fatalf("%+v is not %+v", *found, wanted)
		}
	}
}

func TestAnInformerSeesTheBeatOfItsOwnProgram(t *testing.T) {
	p := newPlace(t)
	read := p.install(10 * time.Second)
	seen := make(chan AddonInstance, 100)
	tell := func(object any) { seen <- *object.(*AddonInstance).DeepCopyObject().(*AddonInstance) }

	cached, err := cache.New(p.config, cache.Options{
		Scheme: NewScheme(), DefaultNamespaces: map[string]cache.Config{p.namespace: {}},
	})
	check(t, err)
	informer, err := cached.GetInformer(p.ctx, &AddonInstance{}, cache.BlockUntilSynced(false))
	check(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, object any) { tell(object) },
	})
	check(t, err)
	ctx, stop := context.WithCancel(p.ctx)
	ended := make(chan error, 1)
	go func() { ended <- cached.Start(ctx) }()
	defer func() { stop(); check(t, <-ended) }()

	awaitBeat(t, seen, false)
	check(t, Pulse(p.ctx, p.client, read))
	awaitBeat(t, seen, true)
	var listed List
	check(t, cached.List(p.ctx, &listed))
	if len(listed.Items) != 1 || listed.Items[0].Status.LastHeartbeatTime.IsZero() {
		t.Fatalf("the cache has %+v", listed.Items)
	}
}

// awaitBeat waits for an instance with a stamp, or for any.
func awaitBeat(t *testing.T, seen <-chan AddonInstance, stamped bool) {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case instance := <-seen:
			if !stamped || !instance.Status.LastHeartbeatTime.IsZero() {
				return
			}
		case <-late:
			t.Fatalf("nothing was seen within %s", patience)
		}
	}
}

func TestAWatchSeesABeat(t *testing.T) {
	p := newPlace(t)
	read := p.install(10 * time.Second)
	var listed List
	check(t, p.client.List(p.ctx, &listed, client.InNamespace(p.namespace)))
	from := &client.ListOptions{Namespace: p.namespace, Raw: &metav1.ListOptions{ResourceVersion: listed.ResourceVersion}}
	watching, err := p.client.Watch(p.ctx, &List{}, from)
	check(t, err)
	defer watching.Stop()
	check(t, Pulse(p.ctx, p.client, read))
	select {
	case event := <-watching.ResultChan():
		instance, is := event.Object.(*AddonInstance)
		if event.Type != watch.Modified || !is || instance.Status.LastHeartbeatTime.IsZero() {
			t.Fatalf("%s %+v", event.Type, event.Object)
		}
	case <-time.After(patience):
		t.Fatalf("no event within %s", patience)
	}
}

// With a checker in the cluster: silence is noticed, and a pulse without a word clears it.
func TestATimeoutIsCleared(t *testing.T) {
	if os.Getenv("BELLWETHER_CHECKER") != "1" {
		t.Skip("no checker runs: BELLWETHER_CHECKER is not 1")
	}
	p := newPlace(t)
	check(t, Pulse(p.ctx, p.client, p.install(time.Second)))
	p.await(Healthy, metav1.ConditionUnknown, "HeartbeatTimeout")
	check(t, Pulse(p.ctx, p.client, p.stored()))
	p.await(Healthy, metav1.ConditionTrue, "ReceivingHeartbeats")
}
