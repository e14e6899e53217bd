package main

import (
	"encoding/json"
	"log"
	"maps"
	"reflect"
	"slices"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// openAPI is what Kubernetes says of its types, by the name of the schema. These are the definitions that its
// API server is built with; the published files (api/openapi-spec/v3) are made from them, but without enums.
type openAPI map[string]common.OpenAPIDefinition

// facts are what OpenAPI knows of a field and Go does not.
type facts struct {
	Required bool `json:"required,omitempty"`
	// Default is raw so that a default of "", 0 or false is still one.
	Default     json.RawMessage `json:"default,omitempty"`
	Format      string          `json:"format,omitempty"`
	Enum        []any           `json:"enum,omitempty"`
	ListType    string          `json:"listType,omitempty"`
	ListMapKeys []string        `json:"listMapKeys,omitempty"`
	MapType     string          `json:"mapType,omitempty"`
}

// typeFacts are what OpenAPI knows of a whole type.
type typeFacts struct {
	OpenAPI string `json:"openapi"`
	MapType string `json:"mapType,omitempty"`
}

// docs are the descriptions of a type ("") and of its fields, in order.
type docs []doc

type doc struct {
	Field, Text string
}

func loadOpenAPI() openAPI {
	return openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(name) })
}

// schema finds the schema of a Go type and its name.
func (o openAPI) schema(t reflect.Type) (string, spec.Schema) {
	named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string })
	if !ok {
		log.Fatalf("%s has no name in OpenAPI", t)
	}
	definition, ok := o[named.OpenAPIModelName()]
	if !ok {
		log.Fatalf("OpenAPI does not know %s", named.OpenAPIModelName())
	}
	return named.OpenAPIModelName(), definition.Schema
}

// typeFacts are the facts of a type, which may be a special one.
func (o openAPI) typeFacts(t reflect.Type) typeFacts {
	name, schema := o.schema(t)
	return typeFacts{OpenAPI: name, MapType: text(schema, "x-kubernetes-map-type")}
}

// complete adds the facts to the fields of a struct, and refuses fields that OpenAPI and Go do not share.
func (o openAPI) complete(name string, c *catalog) {
	_, schema := o.schema(c.structs[name].is)
	unseen := maps.Clone(schema.Properties)
	for _, wireName := range c.wireNames(name) {
		if _, known := unseen[wireName]; !known {
			log.Fatalf("%s.%s is not in OpenAPI", name, wireName)
		}
		delete(unseen, wireName)
	}
	for wireName := range unseen {
		log.Fatalf("%s.%s is in OpenAPI only", name, wireName)
	}
	fields := c.structs[name].fields
	for i := range fields {
		if !fields[i].Inline {
			fields[i].complete(schema, name)
		}
	}
}

func (f *field) complete(owner spec.Schema, ownerName string) {
	where := ownerName + "." + f.JSON
	property := owner.Properties[f.JSON]
	if text(property, "x-kubernetes-patch-strategy") != f.PatchStrategy ||
		text(property, "x-kubernetes-patch-merge-key") != f.PatchMergeKey {
		log.Fatalf("%s: OpenAPI and Go disagree on how to patch it", where)
	}
	f.facts = facts{
		Required:    slices.Contains(owner.Required, f.JSON),
		Format:      property.Format,
		Enum:        property.Enum,
		ListType:    text(property, "x-kubernetes-list-type"),
		ListMapKeys: texts(property, "x-kubernetes-list-map-keys"),
		MapType:     text(property, "x-kubernetes-map-type"),
	}
	if property.Default != nil {
		f.Default = line(property.Default)
	}
	if element := elementOf(property); element != nil {
		if element.Default != nil && !isEmpty(element.Default) {
			log.Fatalf("%s: the default of its elements is not their zero value, and has no place in the file", where)
		}
		f.Format = element.Format
		f.Enum = element.Enum
	}
}

// docs are the descriptions of a type and, if they are given, of its fields.
func (o openAPI) docs(t reflect.Type, fields []field) docs {
	_, schema := o.schema(t)
	written := docs{{"", schema.Description}}
	for _, f := range fields {
		if !f.Inline {
			written = append(written, doc{f.JSON, schema.Properties[f.JSON].Description})
		}
	}
	return slices.DeleteFunc(written, func(d doc) bool { return d.Text == "" })
}

// elementOf is what a list or map is made of, at the bottom of all lists and maps; nil if it is neither.
func elementOf(schema spec.Schema) *spec.Schema {
	var element *spec.Schema
	switch {
	case schema.Items != nil:
		element = schema.Items.Schema
	case schema.AdditionalProperties != nil:
		element = schema.AdditionalProperties.Schema
	}
	if element == nil {
		return nil
	}
	if deeper := elementOf(*element); deeper != nil {
		return deeper
	}
	return element
}

// isEmpty is whether a default says no more than that the value is not null.
func isEmpty(value any) bool {
	v := reflect.ValueOf(value)
	return v.IsZero() || v.Kind() == reflect.Map && v.Len() == 0
}

// text reads an extension that is a string.
func text(schema spec.Schema, extension string) string {
	value, _ := schema.Extensions[extension].(string)
	return value
}

// texts reads an extension that is a list of strings.
func texts(schema spec.Schema, extension string) []string {
	var values []string
	items, _ := schema.Extensions[extension].([]any)
	for _, item := range items {
		values = append(values, item.(string))
	}
	return values
}
