package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// labelled is the plain cluster with a value of the label; empty: without it.
func labelled(value string) string {
	if value == "" {
		return plain
	}
	return strings.Replace(plain, `"name":"lab"`, `"name":"lab","labels":{"ray.io/history":"`+value+`"}`, 1)
}

// spooled is the labelled cluster with a volume as the collector's.
func spooled(value string) string {
	return strings.Replace(labelled(value), `"spec":{"cont`,
		`"spec":{"volumes":[{"name":"collector-spool","emptyDir":{}}],"cont`, 1)
}

// A cluster is left alone where its label says so, and where it runs without a collector and no label asks for one.
func TestWhichObjects(t *testing.T) {
	h := newHandler()
	covered := injected(t)
	for name, tt := range map[string]struct {
		operation admissionv1.Operation
		old, now  string
		want      bool
	}{
		"created":                          {admissionv1.Create, "", labelled(""), true},
		"created, asks":                    {admissionv1.Create, "", labelled("true"), true},
		"created, declines":                {admissionv1.Create, "", labelled("false"), false},
		"runs without":                     {admissionv1.Update, labelled(""), labelled(""), false},
		"runs without, asks":               {admissionv1.Update, labelled(""), labelled("true"), true},
		"applied again without":            {admissionv1.Update, string(covered), labelled(""), true},
		"applied again without, declines":  {admissionv1.Update, string(covered), labelled("false"), false},
		"runs without, volume of its own":  {admissionv1.Update, spooled(""), spooled(""), false},
		"declines, with a rest":            {admissionv1.Update, string(covered), spooled("false"), true},
		"the old one cannot be understood": {admissionv1.Update, `{`, labelled(""), false},
	} {
		t.Run(name, func(t *testing.T) {
			resp := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: tt.operation, Object: runtime.RawExtension{Raw: []byte(tt.now)},
				OldObject: runtime.RawExtension{Raw: []byte(tt.old)}}})
			says.True(t, resp.Allowed && len(resp.Patches) > 0 == tt.want, "allowed %t, %d patches, want some: %t",
				resp.Allowed, len(resp.Patches), tt.want)
		})
	}
}

// An object that is applied again without its collector gets the one that it had, not that of a newer webhook.
func TestUpdateKeepsCollector(t *testing.T) {
	covered := injected(t)
	h := newHandler()
	h.Inject.Image, h.Inject.Args = "collector:v9", []string{"--push-interval=30s"}
	resp := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: []byte(plain)},
		OldObject: runtime.RawExtension{Raw: covered}}})
	patches := fmt.Sprint(resp.Patches)
	says.True(t, strings.Contains(patches, options().Image) && !strings.Contains(patches, "v9") &&
		!strings.Contains(patches, "push-interval"), patches)
}

// settled is an API server with the release's own objects, and asks what is done to it.
func settled(t *testing.T, fail error) (client.Client, *atomic.Int64) {
	t.Helper()
	scheme := runtime.NewScheme()
	must.OK(t, errors.Join(AddToScheme(scheme), networkingv1.AddToScheme(scheme)))
	applied := new(atomic.Int64)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "hs", Name: "storage",
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
			Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "x", "meta.helm.sh/release-name": "y"}},
			Data: map[string]string{"S3_BUCKET": "history"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "hs", Name: "collector",
			Annotations: map[string]string{"eks.amazonaws.com/role-arn": "role", "meta.helm.sh/release-name": "y"}},
			Secrets: []corev1.ObjectReference{{Name: "collector-token"}}},
	).WithInterceptorFuncs(interceptor.Funcs{Apply: func(ctx context.Context, c client.WithWatch,
		o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
		applied.Add(1)
		if fail != nil {
			return fail
		}
		return c.Apply(ctx, o, opts...)
	}}).Build(), applied
}

func handlerOf(api client.Client) *handler {
	o := Options{Inject: options(), Client: api, Namespace: "hs",
		Copies: []string{"configmaps/storage", "serviceaccounts/collector"}, Log: silent.Logger()}
	o.Inject.ServiceAccount = "collector"
	return &handler{Options: o, copier: newCopier(o)}
}

func create(t *testing.T, h *handler, namespace string, dryRun bool) admission.Response {
	t.Helper()
	return ask(t, h, admissionv1.Create, namespace, dryRun)
}

// ask has a cluster that asks for a collector made or changed.
func ask(t *testing.T, h *handler, operation admissionv1.Operation, namespace string, dryRun bool) admission.Response {
	t.Helper()
	return h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: namespace, DryRun: &dryRun,
		Object: runtime.RawExtension{Raw: []byte(labelled("true"))}}})
}

// names says whether the pods of a response name the account.
func names(resp admission.Response) bool {
	for _, p := range resp.Patches {
		if strings.HasSuffix(p.Path, "/serviceAccountName") && p.Value == "collector" {
			return true
		}
	}
	return false
}

func TestNamespacesGetWhatCollectorsNeed(t *testing.T) {
	api, applied := settled(t, nil)
	h := handlerOf(api)
	if resp := create(t, h, "team", true); names(resp) || applied.Load() != 0 || len(resp.Warnings) != 1 {
		t.Errorf("a dry run made %d objects, warnings %q", applied.Load(), resp.Warnings)
	}
	for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
		if resp := ask(t, h, operation, "team", false); !names(resp) || len(resp.Warnings) != 0 {
			t.Errorf("%s: patches %v, warnings %q", operation, resp.Patches, resp.Warnings)
		}
		says.Equal(t, applied.Load(), 2, "%d objects were applied after %s, want each once", applied.Load(), operation)
	}
	var config corev1.ConfigMap
	must.OK(t, api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "storage"}, &config))
	var account corev1.ServiceAccount
	must.OK(t, api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "collector"}, &account))
	says.True(t, config.Data["S3_BUCKET"] == "history" && len(config.Annotations) == 0 &&
		config.Labels["app.kubernetes.io/managed-by"] == owner && len(account.Secrets) == 0, "%+v %+v", config, account)
	says.Equal(t, cmp.Diff(map[string]string{"eks.amazonaws.com/role-arn": "role"}, account.Annotations), "")
}

// A namespace that is deleted and made again under its name has nothing: it gets everything again.
func TestNamespaceMadeAgain(t *testing.T) {
	api, _ := settled(t, nil)
	h := handlerOf(api)
	for range 2 {
		resp := create(t, h, "team", false)
		says.True(t, names(resp) && len(resp.Warnings) == 0, "patches %v, warnings %q", resp.Patches, resp.Warnings)
		for _, o := range []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "storage"}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "collector"}}} {
			o.SetNamespace("team")
			must.OK(t, api.Delete(t.Context(), o))
		}
	}
	h.copier.Copies = nil
	says.True(t, !names(create(t, h, "team", false)), "pods name an account that is gone")
}

// Nobody waits long for a slow API server, whatever is asked of it, but what was begun is done.
func TestCopyingGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, _ := settled(t, nil)
		slowly := func(ctx context.Context, call func() error) error {
			select {
			case <-time.After(10 * time.Second):
				return call()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		h := handlerOf(interceptor.NewClient(api.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
				opts ...client.GetOption) error {
				return slowly(ctx, func() error { return c.Get(ctx, key, o, opts...) })
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
				opts ...client.ApplyOption) error {
				return slowly(ctx, func() error { return c.Apply(ctx, o, opts...) })
			},
		}))
		began := time.Now()
		if resp := create(t, h, "team", false); !resp.Allowed || len(resp.Warnings) != 2 ||
			!strings.Contains(resp.Warnings[1], "no answer from Kubernetes") || time.Since(began) > time.Second {
			t.Errorf("after %s: %+v", time.Since(began), resp)
		}
		time.Sleep(copyTimeout)
		must.OK(t, api.Get(t.Context(), client.ObjectKey{Namespace: "team", Name: "storage"}, new(corev1.ConfigMap)))
	})
}

// A cluster whose pods KubeRay isolates gets everything but the network policy that would open them.
func TestIsolatedClusters(t *testing.T) {
	for isolation, want := range map[string]int64{``: 3, `"networkPolicy":{},`: 2} {
		api, applied := settled(t, nil)
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "hs", Name: "collector"}}
		must.OK(t, api.Create(t.Context(), policy))
		h := handlerOf(api)
		h.copier.Copies = append(h.copier.Copies, "networkpolicies/collector")
		h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "team", Object: runtime.RawExtension{
				Raw: []byte(strings.Replace(plain, `"spec":{`, `"spec":{`+isolation, 1))}}})
		says.Equal(t, applied.Load(), want, "%s", isolation)
	}
}

// A namespace that cannot be given anything keeps nobody waiting, and no pod names an account that is not there.
func TestNamespacesThatCannotBePrepared(t *testing.T) {
	api, _ := settled(t, errors.New("not allowed"))
	resp := create(t, handlerOf(api), "team", false)
	if !resp.Allowed || len(resp.Patches) == 0 || names(resp) || len(resp.Warnings) != 2 ||
		!strings.Contains(resp.Warnings[0], "not allowed") ||
		!strings.Contains(resp.Warnings[1], "no service account") {
		t.Errorf("%+v", resp)
	}
}

// Pods keep the account default where it gives them what the collector's does not.
func TestAccountThatGivesLess(t *testing.T) {
	secret := func(names ...string) (all []corev1.LocalObjectReference) {
		for _, name := range names {
			all = append(all, corev1.LocalObjectReference{Name: name})
		}
		return all
	}
	role := func(name string) map[string]string { return map[string]string{"eks.amazonaws.com/role-arn": name} }
	for name, tt := range map[string]struct {
		usual, own corev1.ServiceAccount
		warning    string // empty: the pods name the collector's
	}{
		"nothing": {},
		"pull secret": {usual: corev1.ServiceAccount{ImagePullSecrets: secret("registry")},
			warning: "pull secret registry"},
		"the same pull secret": {usual: corev1.ServiceAccount{ImagePullSecrets: secret("registry")},
			own: corev1.ServiceAccount{ImagePullSecrets: secret("other", "registry")}},
		"role": {usual: corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: role("ray")}},
			own:     corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: role("collector")}},
			warning: "another eks.amazonaws.com/role-arn"},
		"OpenShift's": {usual: corev1.ServiceAccount{ImagePullSecrets: secret("default-dockercfg-8x2kq"),
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"openshift.io/internal-registry-pull-secret-ref": "default-dockercfg-8x2kq"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			api, _ := settled(t, nil)
			tt.usual.Namespace, tt.usual.Name = "team", "default"
			tt.own.Namespace, tt.own.Name = "team", "collector"
			must.OK(t, api.Create(t.Context(), &tt.usual))
			must.OK(t, api.Create(t.Context(), &tt.own))
			h := handlerOf(api)
			h.copier.Copies = nil
			resp := create(t, h, "team", false)
			if names(resp) != (tt.warning == "") || tt.warning != "" &&
				(len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], tt.warning)) {
				t.Errorf("names the account: %t, warnings %q, want %q", names(resp), resp.Warnings, tt.warning)
			}
		})
	}
}

func TestCheckCopies(t *testing.T) {
	must.OK(t, CheckCopies([]string{"configmaps/a", "secrets/b", "networkpolicies/c"}))
	for _, wrong := range []string{"pods/a", "secrets", "secrets/"} {
		says.Error(t, CheckCopies([]string{wrong}), wrong)
	}
}
