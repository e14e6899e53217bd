package main

import (
	"cmp"
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// servedKind is where a kind is served, and how.
type servedKind struct {
	Group        string        `json:"group"`
	Version      string        `json:"version"`
	Kind         string        `json:"kind"`
	Plural       string        `json:"plural"`
	Singular     string        `json:"singular"`
	ShortNames   []string      `json:"shortNames,omitempty"`
	Categories   []string      `json:"categories,omitempty"`
	Namespaced   bool          `json:"namespaced"`
	Verbs        []string      `json:"verbs"`
	Subresources []subresource `json:"subresources,omitempty"`
}

// subresource has the group, version and kind of what is sent to it, which need not be a kind of the file.
type subresource struct {
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Version string   `json:"version"`
	Kind    string   `json:"kind"`
	Verbs   []string `json:"verbs"`
}

// resources finds the resources of the given kinds in the discovery documents that Kubernetes publishes with its
// source. A kind that is only ever sent to a subresource, or is no resource at all, has none.
func resources(kinds []kind) []servedKind {
	published := filepath.Join(moduleDirectory("k8s.io/kubernetes"), "api", "discovery")
	var found []servedKind
	for _, k := range kinds {
		served := discovered(published, schema.GroupVersion{Group: k.Group, Version: k.Version})
		for _, candidate := range served {
			if candidate.Kind == k.Kind && !strings.Contains(candidate.Name, "/") {
				found = append(found, servedKind{
					Group:        k.Group,
					Version:      k.Version,
					Kind:         k.Kind,
					Plural:       candidate.Name,
					Singular:     candidate.SingularName,
					ShortNames:   candidate.ShortNames,
					Categories:   candidate.Categories,
					Namespaced:   candidate.Namespaced,
					Verbs:        candidate.Verbs,
					Subresources: subresources(k, candidate.Name, served),
				})
			}
		}
	}
	return found
}

func subresources(owner kind, plural string, served []metav1.APIResource) []subresource {
	var found []subresource
	for _, candidate := range served {
		name, ok := strings.CutPrefix(candidate.Name, plural+"/")
		if !ok {
			continue
		}
		// Discovery leaves out the group and version of its own document. An empty group alone may as well be
		// the core one; only the version tells.
		group := candidate.Group
		if candidate.Version == "" {
			group = owner.Group
		}
		found = append(found, subresource{
			Name:    name,
			Group:   group,
			Version: cmp.Or(candidate.Version, owner.Version),
			Kind:    candidate.Kind,
			Verbs:   candidate.Verbs,
		})
	}
	return found
}

// discovered reads what is served in a group and version.
func discovered(directory string, served schema.GroupVersion) []metav1.APIResource {
	name := "apis__" + served.Group + "__" + served.Version + ".json"
	if served.Group == "" {
		name = "api__" + served.Version + ".json"
	}
	content, err := os.ReadFile(filepath.Join(directory, name))
	if err != nil {
		log.Fatal(err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(content, &list); err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return list.APIResources
}

// moduleDirectory is where Go keeps the source of a module that go.mod pins.
func moduleDirectory(module string) string {
	directory, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		log.Fatalf("cannot find the source of %s: %v", module, err)
	}
	return strings.TrimSpace(string(directory))
}
