package typed

import (
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"bellwether.test/clients/place"
)

// following is an informer on the ConfigMaps of a place, whose watches may be asked for in another way.
func following(p place.Place, tweak internalinterfaces.TweakListOptionsFunc) cache.SharedIndexInformer {
	p.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(
		p.Client, 0, informers.WithNamespace(p.Namespace), informers.WithTweakListOptions(tweak),
	)
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(p.Ctx.Done())
	if !cache.WaitForCacheSync(p.Ctx.Done(), informer.HasSynced) {
		p.Fatal("the informer did not get its objects")
	}
	return informer
}

// put makes a ConfigMap.
func put(p place.Place, name, value string) {
	p.Helper()
	object := &corev1.ConfigMap{ObjectMeta: named(name), Data: map[string]string{"key": value}}
	p.Eventually("there is a connection", func() bool {
		_, err := p.Client.CoreV1().ConfigMaps(p.Namespace).Create(p.Ctx, object, create)
		return err == nil || apierrors.IsAlreadyExists(err)
	})
}

func has(p place.Place, informer cache.SharedIndexInformer, name, value string) func() bool {
	return func() bool {
		object, found, err := informer.GetStore().GetByKey(p.Namespace + "/" + name)
		p.Check(err)
		return found == (value != "") && (!found || object.(*corev1.ConfigMap).Data["key"] == value)
	}
}

// asked are the queries of the requests for ConfigMaps that read them.
func asked(p place.Place) []url.Values {
	var queries []url.Values
	for _, request := range p.Line.Requests() {
		if request.Method == "GET" && strings.HasSuffix(request.Path, "/configmaps") && request.Status == 200 {
			query, err := url.ParseQuery(request.Query)
			p.Check(err)
			queries = append(queries, query)
		}
	}
	return queries
}

func TestAnInformerStreamsItsListAndFollows(t *testing.T) {
	p := place.New(t)
	maps := p.Client.CoreV1().ConfigMaps(p.Namespace)
	put(p, "before", "1")
	first := following(p, nil)
	if !has(p, first, "before", "1")() {
		t.Fatal("what was there is missing")
	}
	for _, query := range asked(p) {
		if query.Get("watch") == "" || query.Get("sendInitialEvents") != "true" {
			t.Fatalf("the list was not streamed: %v", query)
		}
	}
	put(p, "after", "2")
	p.Eventually("the new one is seen", has(p, first, "after", "2"))
	changed, err := maps.Get(p.Ctx, "after", get)
	p.Check(err)
	changed.Data["key"] = "3"
	_, err = maps.Update(p.Ctx, changed, update)
	p.Check(err)
	p.Eventually("the change is seen", has(p, first, "after", "3"))
	p.Check(maps.Delete(p.Ctx, "before", remove))
	p.Eventually("the deletion is seen", has(p, first, "before", ""))

	second := following(p, nil)
	if !has(p, second, "after", "3")() || !has(p, second, "before", "")() {
		t.Fatalf("the second informer has %v", second.GetStore().ListKeys())
	}
}

func TestAnInformerGoesOnWhereItsWatchEnded(t *testing.T) {
	p := place.New(t)
	// Less than a second would make client-go begin anew.
	short := int64(2)
	informer := following(p, func(options *metav1.ListOptions) { options.TimeoutSeconds = &short })
	first := len(asked(p))
	for _, value := range []string{"1", "2"} {
		before := len(asked(p))
		p.Eventually("the watch ended and another began", func() bool { return len(asked(p)) > before })
		put(p, "a"+value, value)
		p.Eventually("what happens then is seen", has(p, informer, "a"+value, value))
	}
	for _, query := range asked(p)[first:] {
		if query.Get("watch") == "" || query.Get("sendInitialEvents") != "" || query.Get("resourceVersion") == "" {
			t.Fatalf("it began anew: %v", query)
		}
	}
}

func TestAnInformerSurvivesBrokenConnections(t *testing.T) {
	p := place.New(t)
	informer := following(p, nil)
	for _, value := range []string{"1", "2", "3"} {
		p.Line.Break()
		put(p, "a"+value, value)
		p.Eventually("what happened meanwhile is seen", has(p, informer, "a"+value, value))
	}
}
