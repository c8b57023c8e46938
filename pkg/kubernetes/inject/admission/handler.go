// Package admission is the admission webhook that adds the collector to RayClusters, RayJobs, RayServices and
// RayCronJobs when they are created or changed. Which of them reach it is in its MutatingWebhookConfiguration.
package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sirupsen/logrus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

// optIn says by the value true that an object shall have the collector, by false that it shall not.
const optIn = "ray.io/history"

// handler adds the collector to objects. It never refuses one: a cluster without history is better than no cluster.
type handler struct {
	Options
	copier *copier // nil: nothing is asked of Kubernetes
}

// Handle answers one admission request. It always allows it: what goes wrong is a warning, because the cluster is worth
// more than its history.
func (h *handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	log := h.Log.WithFields(logrus.Fields{"kind": req.Kind.Kind, "namespace": req.Namespace, "name": req.Name})
	object, err := decode(req.Object.Raw)
	before := &unstructured.Unstructured{}
	if old, err := decode(req.OldObject.Raw); err == nil {
		before = old
	}
	var changes []inject.Change
	var warnings []string
	switch {
	case err != nil:
	case h.wantsCollector(object, before, req.Operation):
		var options inject.Options
		options, warnings = h.prepareNamespace(ctx, req, object)
		inject.Keep(object.Object, before.Object, h.Inject)
		changes, err = inject.Mutate(object.Object, options)
	default:
		inject.Drop(object.Object, before.Object)
	}
	var resp admission.Response
	if err == nil {
		resp, err = patch(req.Object.Raw, object)
	}
	if err != nil {
		log.WithError(err).Error("the collector could not be added")
		return admission.Allowed("").WithWarnings(
			shortWarning(fmt.Sprintf("the collector could not be added: %v", err)))
	}
	for _, w := range warnings {
		log.Warn(w)
		resp.Warnings = append(resp.Warnings, shortWarning(w))
	}
	for _, c := range changes {
		for _, w := range c.Warnings {
			resp.Warnings = append(resp.Warnings, shortWarning(w))
		}
		if len(c.Done) > 0 {
			log.WithField("pods", len(c.Done)).Info("collector added")
		}
	}
	return resp
}

// wantsCollector says whether an object is to have the collector; before is the object before an update. One that runs
// without a collector is left alone unless its label asks for one: KubeRay may change a cluster at any time, and would
// then make some of its pods anew.
func (h *handler) wantsCollector(object, before *unstructured.Unstructured, operation admissionv1.Operation) bool {
	if object.GetDeletionTimestamp() != nil {
		return false
	}
	switch object.GetLabels()[optIn] {
	case "true":
		return true
	case "false":
		return false
	}
	if operation != admissionv1.Update {
		return true
	}
	// The object had the collector before if there was nothing to add.
	changes, err := inject.Mutate(before.DeepCopy().Object, h.Inject)
	return err == nil && len(changes) == 1 && len(changes[0].Done) == 0
}

// prepareNamespace gives the namespace what collectors need there. It returns the options of inject that fit the
// namespace, and warnings about what is missing. A dry run changes nothing.
func (h *handler) prepareNamespace(ctx context.Context, req admission.Request, object *unstructured.Unstructured) (
	o inject.Options, warnings []string) {
	o = h.Inject
	if h.copier == nil {
		return o, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTimeout,
		fmt.Errorf("no answer from Kubernetes within %s", prepareTimeout))
	defer cancel()
	if req.Operation == admissionv1.Create {
		h.copier.forgetNamespace(req.Namespace)
	}
	if req.DryRun == nil || !*req.DryRun {
		if err := h.copier.copyInto(ctx, target{req.Namespace, inject.Isolated(object.Object)}); err != nil {
			warnings = append(warnings, fmt.Sprintf("collectors may store nothing: %v", err))
		}
	}
	if o.ServiceAccount != "" {
		if err := h.copier.mayUse(ctx, req.Namespace, o.ServiceAccount); err != nil {
			warnings = append(warnings, fmt.Sprintf("the pods keep their account, which may not have access to the "+
				"store: %v", err))
			o.ServiceAccount = ""
		}
	}
	return o, warnings
}

// decode reads an object; its numbers stay as they are.
func decode(raw []byte) (*unstructured.Unstructured, error) {
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// patch returns the answer that allows an object and changes it from its JSON to what it is now.
func patch(raw []byte, object *unstructured.Unstructured) (admission.Response, error) {
	changed, err := json.Marshal(object.Object)
	if err != nil {
		return admission.Response{}, fmt.Errorf("encode the object: %w", err)
	}
	resp := admission.PatchResponseFromRaw(raw, changed)
	if !resp.Allowed {
		err = errors.New(resp.Result.Message)
	}
	return resp, err
}

// shortWarning cuts a text to what Kubernetes passes on to clients: at most 256 characters.
func shortWarning(text string) string { return human.Cut(text, 250) }
