package main

import (
	"encoding/json"
	"io"
	"log"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// defaultRoles are those of Kubernetes' first roles that somebody can use who has no nodes and no
// controllers outside of the server. Their bindings have the same names.
var defaultRoles = []string{
	"admin",
	"cluster-admin",
	"edit",
	"system:aggregate-to-admin",
	"system:aggregate-to-edit",
	"system:aggregate-to-view",
	"system:auth-delegator",
	"system:basic-user",
	"system:discovery",
	"system:monitoring",
	"system:public-info-viewer",
	"system:service-account-issuer-discovery",
	"view",
}

// renderRoles writes the roles, and who has them, one object a line.
func renderRoles(out io.Writer) {
	var rows []string
	add := func(name, kind string, object runtime.Object) {
		if !slices.Contains(defaultRoles, name) {
			return
		}
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{
			Group: "rbac.authorization.k8s.io", Version: "v1", Kind: kind,
		})
		row, err := json.Marshal(object)
		if err != nil {
			log.Fatal(err)
		}
		rows = append(rows, string(row))
	}
	roles := bootstrappolicy.ClusterRoles()
	for i := range roles {
		add(roles[i].Name, "ClusterRole", &roles[i])
	}
	bindings := bootstrappolicy.ClusterRoleBindings()
	for i := range bindings {
		add(bindings[i].Name, "ClusterRoleBinding", &bindings[i])
	}
	slices.Sort(rows)
	io.WriteString(out, "[\n")
	for i, row := range rows {
		if i > 0 {
			io.WriteString(out, ",\n")
		}
		io.WriteString(out, row)
	}
	io.WriteString(out, "\n]\n")
}
