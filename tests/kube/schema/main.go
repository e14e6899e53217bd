// Command schema prints the wire shape of built-in Kubernetes kinds, read from their Go types, as the JSON
// that the embedded API server decodes them by (crates/apiserver/data/builtins.json). It knows neither
// defaults nor validation.
//
// To regenerate, and to check that the committed file is current, from the root of the repository:
//
//	go run -C tests/kube ./schema >crates/apiserver/data/builtins.json
//	go run -C tests/kube ./schema | diff crates/apiserver/data/builtins.json -
//
// The output is
//
//	source  the modules it was read from
//	kinds   group, version, kind, and the name of the type
//	types   per type, by name, the fields of the struct in order
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
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
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
	{eventsv1.SchemeGroupVersion, &eventsv1.Event{}},
	{coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}},
	{metav1.Unversioned, &metav1.DeleteOptions{}},
	{metav1.Unversioned, &metav1.Status{}},
}

// parts are wanted by themselves although no client sends them alone.
var parts = []any{
	metav1.ObjectMeta{},
	metav1.ListMeta{},
}

// special types have a wire form of their own, which the reader of the file knows by name.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():          "Time",
	reflect.TypeFor[metav1.MicroTime]():     "MicroTime",
	reflect.TypeFor[metav1.Duration]():      "Duration",
	reflect.TypeFor[metav1.FieldsV1]():      "FieldsV1",
	reflect.TypeFor[intstr.IntOrString]():   "IntOrString",
	reflect.TypeFor[resource.Quantity]():    "Quantity",
	reflect.TypeFor[runtime.RawExtension](): "RawExtension",
}

// typeRef is one of
//
//	"string", "bool", "int32", …, "bytes"        a scalar; bytes are base64 in JSON
//	"Time", "Quantity", …                        one of the special types
//	{"struct": NAME}                             a type of the file
//	{"list": REF}, {"map": REF}                  the keys of a map are strings
//	{"named": {"name": NAME, "is": REF}}         on the wire like "is", but Go's errors call it NAME
type typeRef any

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
}

type kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	Type    string `json:"type"`
}

func main() {
	log.SetFlags(0)
	catalog := catalog{structs: map[string][]field{}, packages: map[string]string{}}
	var rows []kind
	for _, k := range kinds {
		t := reflect.TypeOf(k.object).Elem()
		rows = append(rows, kind{k.Group, k.Version, t.Name(), catalog.addStruct(t)})
	}
	for _, part := range parts {
		catalog.addStruct(reflect.TypeOf(part))
	}

	var out bytes.Buffer
	render(&out, rows, catalog.structs)
	if !json.Valid(out.Bytes()) {
		log.Fatal("the output is not JSON")
	}
	if _, err := os.Stdout.Write(out.Bytes()); err != nil {
		log.Fatal(err)
	}
}

// catalog collects every struct that the roots reach.
type catalog struct {
	structs map[string][]field
	// packages holds, by short name, the path that claimed it: two packages must never share one.
	packages map[string]string
}

// addStruct describes a struct and all it refers to, once, and returns its name.
func (c *catalog) addStruct(t reflect.Type) string {
	name := c.name(t)
	if _, done := c.structs[name]; done {
		return name
	}
	c.structs[name] = nil // ends the recursion of a type that holds itself
	fields := []field{}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		fields = append(fields, c.field(f, name+"."+f.Name))
	}
	c.structs[name] = fields
	return name
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
		return map[string]string{"struct": c.addStruct(t)}
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
	for _, prefix := range []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery/pkg/"} {
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

// source names the modules that the types came from.
func source() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		log.Fatal("this program was built without module information")
	}
	var modules []string
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" || module.Path == "k8s.io/apimachinery" {
			modules = append(modules, module.Path+" "+cmp.Or(module.Replace, module).Version)
		}
	}
	return modules
}

// render writes a line per kind and per field, so that a change of Kubernetes reads well as a diff.
func render(w io.Writer, kinds []kind, structs map[string][]field) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	fmt.Fprintf(out, "{\n\"source\": %s,\n\"kinds\": [\n", line(source()))
	writeLines(out, kinds)
	fmt.Fprint(out, "],\n\"types\": {\n")
	for i, name := range slices.Sorted(maps.Keys(structs)) {
		if i > 0 {
			fmt.Fprint(out, ",\n")
		}
		fmt.Fprintf(out, "%s: [\n", line(name))
		writeLines(out, structs[name])
		fmt.Fprint(out, "]")
	}
	fmt.Fprint(out, "\n}\n}\n")
}

func writeLines[T any](w io.Writer, items []T) {
	for i, item := range items {
		comma := ","
		if i == len(items)-1 {
			comma = ""
		}
		fmt.Fprintf(w, "  %s%s\n", line(item), comma)
	}
}

func line(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return encoded
}
