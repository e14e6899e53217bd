// Package manager has a controller as controller-runtime makes them: a manager with a cache, leader election, and a
// reconciler that keeps a Secret for each ConfigMap that asks for one.
package manager

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Label marks the ConfigMaps that are copied.
const Label = "example.com/copied"

// Copier copies ConfigMaps to Secrets of the same name, and says who did it last.
type Copier struct {
	client.Client
	Name string
}

// SetUp adds the copier to a manager.
func (c *Copier) SetUp(to ctrl.Manager) error {
	anyName := true
	return ctrl.NewControllerManagedBy(to).Named("copier").
		For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		WithOptions(controller.Options{SkipNameValidation: &anyName}).Complete(c)
}

// Reconcile makes the Secret what it should be.
func (c *Copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var from corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &from); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if from.Labels[Label] == "" || !from.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, copied, func() error {
		if len(copied.Data) != len(from.Data) {
			copied.Data = map[string][]byte{}
		}
		for key, value := range from.Data {
			copied.Data[key] = []byte(value)
		}
		metav1.SetMetaDataAnnotation(&copied.ObjectMeta, "example.com/by", c.Name)
		return controllerutil.SetControllerReference(&from, copied, c.Scheme())
	})
	return ctrl.Result{}, err
}
