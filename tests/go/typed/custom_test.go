package typed

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"bellwether.test/clients/place"
)

// define installs a kind of the place's own, with the typed client, and waits until it is served.
func define(p place.Place) schema.GroupVersionResource {
	p.Helper()
	clients, err := apiextensions.NewForConfig(p.Config)
	p.Check(err)
	definitions := clients.ApiextensionsV1().CustomResourceDefinitions()
	group := p.Namespace + ".example.com"
	least, name := 1.0, "widgets."+group
	spec := apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size":   {Type: "integer", Minimum: &least, Default: &apiextensionsv1.JSON{Raw: []byte("3")}},
			"colour": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"red"`)}, {Raw: []byte(`"blue"`)}}},
			"labels": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"},
			}},
			"list": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"},
			}},
		},
		XValidations: apiextensionsv1.ValidationRules{{Rule: "self.size < 10", Message: "too large"}},
	}
	made, err := definitions.Create(p.Ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: named(name),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec":   spec,
						"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {Type: "string"}}},
					},
				}},
			}},
		},
	}, create)
	p.Check(err)
	if got := made.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; string(got.Properties["size"].Default.Raw) != "3" {
		p.Fatalf("%+v", got)
	}
	p.Cleanup(func() { _ = definitions.Delete(p.Ctx, name, remove) })
	p.Eventually("the definition is established", func() bool {
		read, err := definitions.Get(p.Ctx, name, get)
		p.Check(err)
		for _, condition := range read.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
}

func widget(of schema.GroupVersionResource, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": of.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func TestTheDynamicClientServesCustomKinds(t *testing.T) {
	p := place.New(t)
	of := define(p)
	clients, err := dynamic.NewForConfig(p.Config)
	p.Check(err)
	widgets := clients.Resource(of).Namespace(p.Namespace)

	var made *unstructured.Unstructured
	p.Eventually("the kind is served", func() bool {
		made, err = widgets.Create(p.Ctx, widget(of, "a", map[string]any{"colour": "red"}), create)
		return err == nil
	})
	if size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size"); size != 3 {
		t.Fatalf("%+v", made)
	}
	for _, wrong := range []map[string]any{{"colour": "green"}, {"size": int64(0)}, {"size": int64(11)}, {"list": []any{int64(1)}}} {
		if _, err = widgets.Create(p.Ctx, widget(of, "b", wrong), create); !apierrors.IsInvalid(err) {
			t.Fatalf("%v: %v", wrong, err)
		}
	}
	p.Check(unstructured.SetNestedField(made.Object, "Ready", "status", "phase"))
	p.Check(unstructured.SetNestedField(made.Object, int64(5), "spec", "size"))
	made, err = widgets.UpdateStatus(p.Ctx, made, update)
	p.Check(err)
	size, _, _ := unstructured.NestedInt64(made.Object, "spec", "size")
	phase, _, _ := unstructured.NestedString(made.Object, "status", "phase")
	if size != 3 || phase != "Ready" {
		t.Fatalf("%+v", made)
	}
	_, err = widgets.Patch(p.Ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":7}}`), patch)
	p.Check(err)
	read, err := widgets.List(p.Ctx, list)
	p.Check(err)
	if len(read.Items) != 1 || read.Items[0].GetGeneration() != 2 {
		t.Fatalf("%+v", read)
	}
	p.Check(widgets.Delete(p.Ctx, "a", remove))
}

func TestADynamicInformerFollowsACustomKind(t *testing.T) {
	p := place.New(t)
	of := define(p)
	clients, err := dynamic.NewForConfig(p.Config)
	p.Check(err)
	widgets := clients.Resource(of).Namespace(p.Namespace)
	p.Eventually("the kind is served", func() bool {
		_, err := widgets.Create(p.Ctx, widget(of, "a", map[string]any{}), create)
		return err == nil
	})
	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(clients, 0, p.Namespace, nil)
	informer := informers.ForResource(of)
	store := informer.Informer().GetStore()
	informers.Start(p.Ctx.Done())
	if !cache.WaitForCacheSync(p.Ctx.Done(), informer.Informer().HasSynced) {
		t.Fatal("the informer did not get its objects")
	}
	_, err = widgets.Create(p.Ctx, widget(of, "b", map[string]any{}), create)
	p.Check(err)
	p.Check(widgets.Delete(p.Ctx, "a", remove))
	p.Eventually("only the second is left", func() bool {
		keys := store.ListKeys()
		return len(keys) == 1 && keys[0] == p.Namespace+"/b"
	})
}

func TestDiscoveryNamesEveryKind(t *testing.T) {
	p := place.New(t)
	of := define(p)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(p.Client.Discovery()))
	for _, kind := range []schema.GroupVersionKind{
		{Version: "v1", Kind: "ConfigMap"},
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		of.GroupVersion().WithKind("Widget"),
	} {
		p.Eventually(kind.String()+" is known", func() bool {
			mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				mapper.Reset()
				return false
			}
			return mapping.GroupVersionKind == kind
		})
	}
	version, err := p.Client.Discovery().ServerVersion()
	p.Check(err)
	if version.Major != "1" || version.Minor != "36" {
		t.Fatalf("%+v", version)
	}
}
