package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

func options() inject.Options {
	o := inject.Default()
	o.StorageBackend = "s3"
	return o
}

const plain = `{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"lab","generation":12345678901234567890},` +
	`"spec":{"headGroupSpec":{"rayStartParams":{},"template":{"spec":{"containers":[{"name":"ray-head","image":"rayproject/ray:2.60.0"}]}}}}}`

// injected is the object plain with its collector.
func injected(t *testing.T) []byte {
	object := must.Get(decode([]byte(plain)))(t)
	must.Get(inject.Mutate(object.Object, options()))(t)
	return must.Get(json.Marshal(object.Object))(t)
}

func newHandler() *handler {
	return &handler{Options: Options{Inject: options(), Log: silent.Logger()}}
}

func TestHandle(t *testing.T) {
	h := newHandler()
	ask := func(raw string) admission.Response {
		return h.Handle(t.Context(), admission.Request{
			AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
	}
	resp := ask(plain)
	must.True(t, resp.Allowed && len(resp.Patches) != 0 && len(resp.Warnings) == 0, "%+v", resp)
	for _, p := range resp.Patches {
		says.True(t, p.Operation == "add" && strings.HasPrefix(p.Path, "/spec/headGroupSpec/template/spec/"),
			"patch %s %s", p.Operation, p.Path)
	}
	done := injected(t)
	for name, tt := range map[string]struct{ raw, warning string }{
		"again": {raw: string(done)},
		"going": {raw: strings.Replace(plain, `"name":"lab"`,
			`"name":"lab","deletionTimestamp":"2026-11-20T00:00:00Z"`, 1)},
		"other kind": {raw: `{"apiVersion":"v1","kind":"Pod"}`},
		"damaged":    {raw: `{`, warning: "decode the object"},
		"cannot be done": {raw: `{"apiVersion":"ray.io/v1","kind":"RayCluster","spec":{}}`,
			warning: "headGroupSpec is missing"},
		"elsewhere": {raw: `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"clusterSelector":{"a":"b"}}}`,
			warning: "another manifest describes"},
		"long": {raw: `{"apiVersion":"ray.io/v1","kind":"RayCluster","metadata":{"name":"` +
			strings.Repeat("x", 400) + `"},"spec":{}}`, warning: "…"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := ask(tt.raw)
			says.True(t, resp.Allowed && len(resp.Patches) == 0, "%+v", resp)
			if tt.warning == "" && len(resp.Warnings) != 0 || tt.warning != "" &&
				(len(resp.Warnings) != 1 || !strings.Contains(resp.Warnings[0], tt.warning)) {
				t.Errorf("warnings %q, want %q", resp.Warnings, tt.warning)
			}
		})
	}
}

// What cannot be read is told to whoever applies the object, and the collector is added all the same.
func TestHandleWarns(t *testing.T) {
	h := newHandler()
	container := `"image":"rayproject/ray:2.60.0"`
	for name, tt := range map[string]struct{ raw, warning string }{
		"variable of a Secret": {container +
			`,"env":[{"name":"RAY_TMPDIR","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]`,
			"RAY_TMPDIR depends on variable RAY_TMPDIR (valueFrom)"},
		"ConfigMap": {container + `,"envFrom":[{"configMapRef":{"name":"ray-env"}}]`,
			"envFrom ConfigMap ray-env may set RAY_TMPDIR"},
		"script": {container + `,"command":["bash","-c","source /env.sh; ray start --head"]`,
			"source /env.sh cannot be read here"},
	} {
		t.Run(name, func(t *testing.T) {
			raw := strings.Replace(plain, container, tt.raw, 1)
			resp := h.Handle(t.Context(), admission.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: []byte(raw)}}})
			says.True(t, resp.Allowed && len(resp.Patches) != 0 && len(resp.Warnings) == 1 &&
				strings.Contains(resp.Warnings[0], tt.warning) && len(resp.Warnings[0]) <= 256,
				"%d patches, warnings %q, want %q", len(resp.Patches), resp.Warnings, tt.warning)
		})
	}
}

// installed is an API server with the webhook's manifests.
func installed(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	must.OK(t, AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hs", Name: "certs"}},
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "hook"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}},
		},
	).Build()
}

func replica(api client.Client) *certs {
	return &certs{Options: Options{Client: api, Namespace: "hs", Service: "webhook", Secret: "certs", Config: "hook"}}
}

func TestCertificateIsSharedAndTold(t *testing.T) {
	api := installed(t)
	one, two := replica(api), replica(api)
	says.True(t, says.Err(one.get(nil)) != nil, "a certificate before the first sync")
	for _, c := range []*certs{one, two, one} {
		must.OK(t, c.syncOnce(t.Context()))
	}
	says.True(t, bytes.Equal(one.current.Load().Certificate[0], two.current.Load().Certificate[0]),
		"two replicas, two certificates")
	var config admissionregistrationv1.MutatingWebhookConfiguration
	must.OK(t, api.Get(t.Context(), client.ObjectKey{Name: "hook"}, &config))
	for _, w := range config.Webhooks {
		roots := x509.NewCertPool()
		must.True(t, roots.AppendCertsFromPEM(w.ClientConfig.CABundle), "webhook %s has no authority", w.Name)
		if _, err := one.current.Load().Leaf.Verify(x509.VerifyOptions{Roots: roots,
			DNSName: "webhook.hs.svc"}); err != nil {
			t.Error(err)
		}
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	c := replica(nil)
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	made := must.Get(c.renew(nil, now))(t)
	change := func(key string, value []byte) map[string][]byte {
		out := map[string][]byte{}
		for k, v := range made {
			out[k] = v
		}
		out[key] = value
		return out
	}
	other := replica(nil)
	other.Service = "other"
	foreign := must.Get(other.renew(nil, now))(t)
	for name, tt := range map[string]struct {
		data           map[string][]byte
		after          time.Duration
		renews, sameCA bool
	}{
		"fresh":             {made, 0, false, true},
		"after two months":  {made, 60 * 24 * time.Hour, false, true},
		"after nine months": {made, 270 * 24 * time.Hour, true, true},
		"after ten years":   {made, caLife - time.Hour, true, false},
		"damaged":           {change("tls.crt", []byte("x")), 0, true, true},
		"damaged authority": {change("ca.key", nil), 0, true, false},
		"of another":        {change("tls.crt", foreign["tls.crt"]), 0, true, true},
		"for another":       {foreign, 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.renew(tt.data, now.Add(tt.after))
			must.True(t, err == nil && (got != nil) == tt.renews, "renewed %v, %v; want %v", got != nil, err, tt.renews)
			says.True(t, got == nil || bytes.Equal(got["ca.crt"], tt.data["ca.crt"]) == tt.sameCA,
				"the authority is the same: %v, want %v", !tt.sameCA, tt.sameCA)
		})
	}
}

func TestSyncSaysWhatIsMissing(t *testing.T) {
	for name, change := range map[string]func(*certs){
		"Secret hs/none":                    func(c *certs) { c.Secret = "none" },
		"MutatingWebhookConfiguration none": func(c *certs) { c.Config = "none" },
	} {
		c := replica(installed(t))
		change(c)
		says.Error(t, c.syncOnce(t.Context()), name, "in it")
	}
}

// The whole webhook over HTTPS, as the API server asks it.
func TestRun(t *testing.T) {
	address := freeport.Address(t)
	api := installed(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{Listen: address, Inject: options(), Client: api, Namespace: "hs", Service: "webhook",
			Secret: "certs", Config: "hook", Log: silent.Logger()})
	}()
	var config admissionregistrationv1.MutatingWebhookConfiguration
	roots := x509.NewCertPool()
	var conn *tls.Conn
	must.Happen(t, "that the webhook serves", func() bool {
		if err := api.Get(ctx, client.ObjectKey{Name: "hook"}, &config); err == nil &&
			roots.AppendCertsFromPEM(config.Webhooks[0].ClientConfig.CABundle) {
			conn, _ = tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "webhook.hs.svc"})
		}
		return conn != nil
	})
	defer func() { _ = conn.Close() }()

	review := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":%s}}`, plain)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+webhookPath,
		strings.NewReader(review))
	must.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		ServerName: "webhook.hs.svc"}}}).Do(req)
	must.OK(t, err)
	defer func() { _ = resp.Body.Close() }()
	var answer admissionv1.AdmissionReview
	must.OK(t, json.NewDecoder(resp.Body).Decode(&answer))
	says.True(t, answer.Response.Allowed && bytes.Contains(answer.Response.Patch, []byte(`"name":"collector"`)), "%+v",
		answer.Response)
	cancel()
	must.OK(t, <-ended)
}

// A replica that ends is asked for some time: it serves until everybody knows.
func TestServesAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		serving, stop := endingLater(ctx, 5*time.Second)
		defer stop()
		cancel()
		began := time.Now()
		time.Sleep(5*time.Second - 1)
		says.OK(t, serving.Err(), "it ended at once")
		<-serving.Done()
		says.Equal(t, time.Since(began), 5*time.Second, "it ended after")
	})
}

func TestRunRefusesAddress(t *testing.T) {
	says.Error(t, Run(t.Context(), Options{Listen: "9443"}), "--webhook-listen")
}
