// Package admission is the admission webhook that adds the collector to RayClusters, RayJobs, RayServices and
// RayCronJobs with the label `ray.io/history: "true"` when they are created or changed.
package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/sirupsen/logrus"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

// handler adds the collector to objects. It never refuses one: a cluster without history is better than no cluster.
type handler struct {
	options inject.Options
	log     logrus.FieldLogger
}

// Handle answers one admission request.
func (h *handler) Handle(_ context.Context, req admission.Request) admission.Response {
	log := h.log.WithFields(logrus.Fields{"kind": req.Kind.Kind, "namespace": req.Namespace, "name": req.Name})
	changed, changes, err := h.mutate(req.Object.Raw)
	if err != nil {
		log.WithError(err).Error("the collector could not be added")
		return admission.Allowed("").WithWarnings(warning(fmt.Sprintf("the collector could not be added: %v", err)))
	}
	resp := admission.PatchResponseFromRaw(req.Object.Raw, changed)
	if !resp.Allowed {
		log.Errorf("the collector could not be added: %v", resp.Result)
		return admission.Allowed("").WithWarnings(warning("the collector could not be added"))
	}
	for _, c := range changes {
		for _, w := range c.Warnings {
			resp.Warnings = append(resp.Warnings, warning(w))
		}
		if len(c.Done) > 0 {
			log.WithField("pods", len(c.Done)).Info("collector added")
		}
	}
	return resp
}

// mutate is inject.Mutate on an object's JSON. It returns the same JSON if there is nothing to add.
func (h *handler) mutate(raw []byte) ([]byte, []inject.Change, error) {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // numbers stay as they are
	if err := d.Decode(&object); err != nil {
		return nil, nil, fmt.Errorf("decode the object: %w", err)
	}
	if meta, ok := object["metadata"].(map[string]any); ok && meta["deletionTimestamp"] != nil {
		return raw, nil, nil
	}
	changes, err := inject.Mutate(object, h.options)
	if err != nil || len(changes) == 0 {
		return raw, nil, err
	}
	out, err := json.Marshal(object)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the object: %w", err)
	}
	return out, changes, nil
}

// warning cuts a text to what Kubernetes passes on to clients: at most 256 characters.
func warning(text string) string {
	const longest = 250
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}
