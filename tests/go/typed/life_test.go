// Package typed has client-go's own clients at work: typed ones, which send protobuf, informers, and the dynamic one.
package typed

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"bellwether.test/clients/place"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

var (
	create   = metav1.CreateOptions{}
	get      = metav1.GetOptions{}
	update   = metav1.UpdateOptions{}
	patch    = metav1.PatchOptions{}
	remove   = metav1.DeleteOptions{}
	list     = metav1.ListOptions{}
	template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
	}
)

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func TestAConfigMapLivesItsWholeLife(t *testing.T) {
	p := place.New(t)
	maps := p.Client.CoreV1().ConfigMaps(p.Namespace)
	made, err := maps.Create(p.Ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "web"}},
		Data:       map[string]string{"key": "value"}, BinaryData: map[string][]byte{"bytes": {0, 255}},
	}, create)
	p.Check(err)
	if made.UID == "" || made.CreationTimestamp.IsZero() || string(made.BinaryData["bytes"]) != "\x00\xff" {
		t.Fatalf("%+v", made)
	}
	if _, err = maps.Create(p.Ctx, made, create); err == nil {
		t.Fatal("an object with a resourceVersion was created")
	}
	if _, err = maps.Create(p.Ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, create); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("created twice: %v", err)
	}
	if _, err = maps.Create(p.Ctx, &corev1.ConfigMap{ObjectMeta: named("Not_A_Name")}, create); !apierrors.IsInvalid(err) {
		t.Fatalf("a name that is none: %v", err)
	}

	changed := made.DeepCopy()
	changed.Data["key"] = "changed"
	changed, err = maps.Update(p.Ctx, changed, update)
	p.Check(err)
	if _, err = maps.Update(p.Ctx, made, update); !apierrors.IsConflict(err) {
		t.Fatalf("a stale copy: %v", err)
	}
	again, err := maps.Update(p.Ctx, changed, update)
	p.Check(err)
	if again.ResourceVersion != changed.ResourceVersion {
		t.Fatal("an update that changes nothing leaves a trace")
	}

	for kind, change := range map[types.PatchType]string{
		types.MergePatchType:          `{"data":{"merge":"1"}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"2"}]`,
		types.StrategicMergePatchType: `{"data":{"strategic":"3"}}`,
	} {
		_, err = maps.Patch(p.Ctx, "a", kind, []byte(change), patch)
		p.Check(err)
	}
	read, err := maps.Get(p.Ctx, "a", get)
	p.Check(err)
	if len(read.Data) != 4 || read.Data["key"] != "changed" {
		t.Fatalf("%+v", read.Data)
	}

	other := types.UID("11111111-2222-3333-4444-555555555555")
	err = maps.Delete(p.Ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Fatalf("the wrong object: %v", err)
	}
	p.Check(maps.Delete(p.Ctx, "a", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	p.Check(maps.Delete(p.Ctx, "a", *metav1.NewPreconditionDeleteOptions(string(read.UID))))
	if _, err = maps.Get(p.Ctx, "a", get); !apierrors.IsNotFound(err) {
		t.Fatalf("after its deletion: %v", err)
	}
	for _, request := range p.Line.Requests() {
		if request.Method == "POST" || request.Method == "PUT" || request.Method == "DELETE" {
			if request.ContentType != "application/vnd.kubernetes.protobuf" {
				t.Fatalf("this test is about protobuf: %+v", request)
			}
		}
	}
}

func TestACollectionIsDeletedByItsLabels(t *testing.T) {
	p := place.New(t)
	maps := p.Client.CoreV1().ConfigMaps(p.Namespace)
	for _, name := range []string{"a", "b", "c"} {
		labels := map[string]string{"doomed": map[bool]string{true: "yes", false: "no"}[name != "c"]}
		_, err := maps.Create(p.Ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, create)
		p.Check(err)
	}
	p.Check(maps.DeleteCollection(p.Ctx, remove, metav1.ListOptions{LabelSelector: "doomed=yes"}))
	left, err := maps.List(p.Ctx, metav1.ListOptions{LabelSelector: "doomed"})
	p.Check(err)
	if len(left.Items) != 1 || left.Items[0].Name != "c" {
		t.Fatalf("%+v", left.Items)
	}
}

func TestASecretTakesTextAndGivesBytes(t *testing.T) {
	p := place.New(t)
	secrets := p.Client.CoreV1().Secrets(p.Namespace)
	made, err := secrets.Create(p.Ctx, &corev1.Secret{
		ObjectMeta: named("a"), StringData: map[string]string{"user": "me"}, Data: map[string][]byte{"raw": {1, 2}},
	}, create)
	p.Check(err)
	if string(made.Data["user"]) != "me" || made.Type != corev1.SecretTypeOpaque || made.StringData != nil {
		t.Fatalf("%+v", made)
	}
	yes := true
	made.Immutable = &yes
	made, err = secrets.Update(p.Ctx, made, update)
	p.Check(err)
	made.Data["user"] = []byte("you")
	if _, err = secrets.Update(p.Ctx, made, update); !apierrors.IsInvalid(err) {
		t.Fatalf("what cannot change was changed: %v", err)
	}
	p.Check(secrets.Delete(p.Ctx, "a", remove))
}

func TestANamespaceGoesWithWhatIsInIt(t *testing.T) {
	p := place.New(t)
	namespaces := p.Client.CoreV1().Namespaces()
	namespace, err := namespaces.Get(p.Ctx, p.Namespace, get)
	p.Check(err)
	namespace.Labels["team"] = "a"
	_, err = namespaces.Update(p.Ctx, namespace, update)
	p.Check(err)
	_, err = p.Client.CoreV1().ConfigMaps(p.Namespace).Create(p.Ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, create)
	p.Check(err)
	p.Check(namespaces.Delete(p.Ctx, p.Namespace, remove))
	p.Eventually("the namespace is gone", func() bool {
		_, err := namespaces.Get(p.Ctx, p.Namespace, get)
		return apierrors.IsNotFound(err)
	})
}

func TestALeaseIsRenewedToTheMicrosecond(t *testing.T) {
	p := place.New(t)
	leases := p.Client.CoordinationV1().Leases(p.Namespace)
	holder, seconds := "me", int32(15)
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 123456000, time.UTC))
	lease, err := leases.Create(p.Ctx, &coordinationv1.Lease{
		ObjectMeta: named("lock"),
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &at, RenewTime: &at,
		},
	}, create)
	p.Check(err)
	if !lease.Spec.RenewTime.Equal(&at) {
		t.Fatalf("%s is not %s", lease.Spec.RenewTime, at)
	}
	later := metav1.NewMicroTime(at.Add(time.Microsecond))
	lease.Spec.RenewTime = &later
	lease, err = leases.Update(p.Ctx, lease, update)
	p.Check(err)
	if !lease.Spec.RenewTime.Equal(&later) || !lease.Spec.AcquireTime.Equal(&at) {
		t.Fatalf("%+v", lease.Spec)
	}
}

func TestARecorderCountsWhatHappensAgain(t *testing.T) {
	p := place.New(t)
	about, err := p.Client.CoreV1().ConfigMaps(p.Namespace).Create(p.Ctx, &corev1.ConfigMap{ObjectMeta: named("a")}, create)
	p.Check(err)
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	sink := typedcorev1.New(p.Client.CoreV1().RESTClient()).Events("")
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: sink})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
	events := p.Client.CoreV1().Events(p.Namespace)
	for count := int32(1); count <= 3; count++ {
		recorder.Event(about, corev1.EventTypeNormal, "Testing", "it happened")
		p.Eventually("the event is counted", func() bool {
			found, err := events.List(p.Ctx, metav1.ListOptions{FieldSelector: "reason=Testing,involvedObject.name=a"})
			p.Check(err)
			return len(found.Items) == 1 && found.Items[0].Count == count
		})
	}
	found, err := p.Client.EventsV1().Events(p.Namespace).List(p.Ctx, list)
	p.Check(err)
	if len(found.Items) != 1 || found.Items[0].Note != "it happened" || found.Items[0].DeprecatedCount != 3 {
		t.Fatalf("%+v", found.Items)
	}
}

func TestADeploymentHasASpecAStatusAndAScale(t *testing.T) {
	p := place.New(t)
	deployments := p.Client.AppsV1().Deployments(p.Namespace)
	made, err := deployments.Create(p.Ctx, &appsv1.Deployment{
		ObjectMeta: named("web"),
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: template,
		},
	}, create)
	p.Check(err)
	if *made.Spec.Replicas != 1 || made.Generation != 1 || made.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Fatalf("%+v", made.Spec)
	}

	made.Status.ObservedGeneration, made.Status.Replicas = made.Generation, 1
	made.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now()},
	}
	none := int32(0)
	made.Spec.Replicas = &none
	made, err = deployments.UpdateStatus(p.Ctx, made, update)
	p.Check(err)
	if made.Status.Replicas != 1 || *made.Spec.Replicas != 1 || made.Generation != 1 {
		t.Fatalf("only the status is written there: %+v", made)
	}

	scale, err := deployments.GetScale(p.Ctx, "web", get)
	p.Check(err)
	scale.Spec.Replicas = 3
	scale, err = deployments.UpdateScale(p.Ctx, "web", scale, update)
	p.Check(err)
	if scale.Spec.Replicas != 3 || scale.Status.Replicas != 1 || scale.Status.Selector != "app=web" {
		t.Fatalf("%+v", scale)
	}

	change := `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example.com/side:1"}]}}}}`
	made, err = deployments.Patch(p.Ctx, "web", types.StrategicMergePatchType, []byte(change), patch)
	p.Check(err)
	if len(made.Spec.Template.Spec.Containers) != 2 || made.Generation != 3 || *made.Spec.Replicas != 3 {
		t.Fatalf("%+v", made)
	}
	// Zero is a number like any other.
	made.Spec.Replicas = &none
	made, err = deployments.Update(p.Ctx, made, update)
	p.Check(err)
	if *made.Spec.Replicas != 0 {
		t.Fatalf("%d replicas", *made.Spec.Replicas)
	}
	background := metav1.DeletePropagationBackground
	p.Check(deployments.Delete(p.Ctx, "web", metav1.DeleteOptions{PropagationPolicy: &background}))
}

func TestAJobEndsByItsStatus(t *testing.T) {
	p := place.New(t)
	jobs := p.Client.BatchV1().Jobs(p.Namespace)
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	job, err := jobs.Create(p.Ctx, &batchv1.Job{ObjectMeta: named("once"), Spec: batchv1.JobSpec{Template: once}}, create)
	p.Check(err)
	if *job.Spec.Completions != 1 || job.Spec.Selector == nil {
		t.Fatalf("%+v", job.Spec)
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	job.Status.StartTime, job.Status.Active = &now, 1
	job, err = jobs.UpdateStatus(p.Ctx, job, update)
	p.Check(err)
	if job.Status.Active != 1 || !job.Status.StartTime.Equal(&now) {
		t.Fatalf("%+v", job.Status)
	}
	p.Check(jobs.Delete(p.Ctx, "once", remove))
}
