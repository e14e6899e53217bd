package main

import (
	"cmp"
	"encoding/json"
	"log"
	"reflect"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// special types have a wire form of their own, which the reader of the file knows by name.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "Time",
	reflect.TypeFor[metav1.MicroTime]():     "MicroTime",
	reflect.TypeFor[metav1.Duration]():      "Duration",
	reflect.TypeFor[metav1.FieldsV1]():      "FieldsV1",
	reflect.TypeFor[intstr.IntOrString]():   "IntOrString",
	reflect.TypeFor[resource.Quantity]():    "Quantity",
	reflect.TypeFor[runtime.RawExtension](): "RawExtension",

	// Any JSON; and a schema, or else a bool, a list of schemas, a list of strings.
	reflect.TypeFor[apiextensionsv1.JSON]():                         "JSON",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        "JSONSchemaPropsOrBool",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       "JSONSchemaPropsOrArray",
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): "JSONSchemaPropsOrStringArray",
}

// typeRef is one of
//
//	"string", "bool", "int32", …, "bytes"        a scalar; bytes are base64 in JSON
//	"Time", "Quantity", …                        one of the special types
//	{"struct": NAME}                             a type of the file
//	{"list": REF}, {"map": REF}                  the keys of a map are strings
//	{"named": {"name": NAME, "is": REF}}         on the wire like "is", but Go's errors call it NAME
type typeRef any

type structRef struct {
	Struct string `json:"struct"`
}

type namedRef struct {
	Name string  `json:"name"`
	Is   typeRef `json:"is"`
}

type field struct {
	JSON          string  `json:"json,omitempty"`
	Go            string  `json:"go"`
	Type          typeRef `json:"type"`
	Pointer       bool    `json:"pointer,omitempty"`
	OmitEmpty     bool    `json:"omitempty,omitempty"`
	OmitZero      bool    `json:"omitzero,omitempty"`
	Inline        bool    `json:"inline,omitempty"`
	Proto         int     `json:"proto,omitempty"`
	PatchStrategy string  `json:"patchStrategy,omitempty"`
	PatchMergeKey string  `json:"patchMergeKey,omitempty"`
	facts
}

// structType is a struct of Go as the file has it.
type structType struct {
	is     reflect.Type
	fields []field
}

// catalog collects every struct that the roots reach.
type catalog struct {
	structs map[string]*structType
	// packages holds, by short name, the path that claimed it: two packages must never share one.
	packages map[string]string
}

func newCatalog() *catalog {
	return &catalog{structs: map[string]*structType{}, packages: map[string]string{}}
}

// addStruct describes a struct and all it refers to, once, and returns its name.
func (c *catalog) addStruct(t reflect.Type) string {
	name := c.name(t)
	if _, done := c.structs[name]; done {
		return name
	}
	described := &structType{is: t}
	c.structs[name] = described // already here, it ends the recursion of a type that holds itself
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		described.fields = append(described.fields, c.field(f, name+"."+f.Name))
	}
	return name
}

// wireNames are the fields of a struct as JSON has them: those of its inline structs stand in their place.
func (c *catalog) wireNames(name string) []string {
	var names []string
	for _, f := range c.structs[name].fields {
		if inlined, ok := f.Type.(structRef); ok && f.Inline {
			names = append(names, c.wireNames(inlined.Struct)...)
		} else {
			names = append(names, f.JSON)
		}
	}
	return names
}

func (c *catalog) field(f reflect.StructField, where string) field {
	wireName, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	described := field{
		JSON:          cmp.Or(wireName, f.Name),
		Go:            f.Name,
		Pointer:       f.Type.Kind() == reflect.Pointer,
		Proto:         protoNumber(f.Tag.Get("protobuf"), where),
		PatchStrategy: f.Tag.Get("patchStrategy"),
		PatchMergeKey: f.Tag.Get("patchMergeKey"),
	}
	// Go embeds an anonymous struct without a name of its own whether or not it says "inline".
	if f.Anonymous && wireName == "" {
		described.Inline = true
		described.JSON = ""
	}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "omitempty":
			described.OmitEmpty = true
		case "omitzero":
			described.OmitZero = true
		case "inline", "":
		default:
			log.Fatalf("%s: JSON option %q is not supported", where, option)
		}
	}
	t := f.Type
	if described.Pointer {
		t = t.Elem()
	}
	described.Type = c.ref(t, where)
	return described
}

func (c *catalog) ref(t reflect.Type, where string) typeRef {
	if name, ok := special[t]; ok {
		return name
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		log.Fatalf("%s: %s has its own wire form; add it to the special types", where, t)
	}
	if t.Kind() == reflect.Struct {
		return structRef{c.addStruct(t)}
	}
	shape := c.shape(t, where)
	if t.PkgPath() != "" {
		return map[string]namedRef{"named": {c.name(t), shape}}
	}
	return shape
}

// shape is how a type that is not a struct looks on the wire, whatever its name.
func (c *catalog) shape(t reflect.Type, where string) typeRef {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return t.Kind().String()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return map[string]typeRef{"list": c.ref(t.Elem(), where)}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return map[string]typeRef{"map": c.ref(t.Elem(), where)}
		}
	}
	log.Fatalf("%s: %s is not supported", where, t)
	return nil
}

// name is the package path, shortened, and the Go name.
func (c *catalog) name(t reflect.Type) string {
	short := t.PkgPath()
	for _, prefix := range []string{
		"k8s.io/api/",
		"k8s.io/apiextensions-apiserver/pkg/apis/",
		"k8s.io/apimachinery/pkg/apis/",
		"k8s.io/apimachinery/pkg/",
		"k8s.io/kube-aggregator/pkg/apis/",
	} {
		if rest, ok := strings.CutPrefix(short, prefix); ok {
			short = rest
			break
		}
	}
	if owner := c.packages[short]; owner != "" && owner != t.PkgPath() {
		log.Fatalf("%s and %s would both be called %s", owner, t.PkgPath(), short)
	}
	c.packages[short] = t.PkgPath()
	return short + "." + t.Name()
}

// protoNumber reads the second item of a tag such as "bytes,1,opt,name=metadata".
func protoNumber(tag, where string) int {
	if tag == "" {
		return 0
	}
	items := strings.Split(tag, ",")
	if len(items) < 2 {
		log.Fatalf("%s: protobuf tag %q has no number", where, tag)
	}
	number, err := strconv.Atoi(items[1])
	if err != nil {
		log.Fatalf("%s: protobuf tag %q: %v", where, tag, err)
	}
	return number
}
