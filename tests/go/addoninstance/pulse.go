package addoninstance

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pulse does on the wire what the Go client of add-ons does: one PUT of the status, of the caller's whole copy. The copy
// is taken by value, so that the caller's keeps its resourceVersion and is stale from then on; nothing is tried twice.
func Pulse(ctx context.Context, to client.Client, instance AddonInstance, conditions ...metav1.Condition) error {
	beat := instance.DeepCopyObject().(*AddonInstance)
	beat.Status.LastHeartbeatTime = metav1.Now()
	for _, condition := range conditions {
		condition.ObservedGeneration = beat.Generation
		meta.SetStatusCondition(&beat.Status.Conditions, condition)
	}
	if err := to.Status().Update(ctx, beat); err != nil {
		return fmt.Errorf("no pulse for %s: %w", client.ObjectKeyFromObject(beat), err)
	}
	return nil
}
