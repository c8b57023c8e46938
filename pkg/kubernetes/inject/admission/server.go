package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

// webhookPath is the path of the webhook.
const webhookPath = "/mutate"

// syncEvery is how often the certificate is checked. When another replica has made a new authority, because the Secret
// was emptied, the API server refuses this one's certificate until then, and clusters get no collector.
const syncEvery = 30 * time.Second

// Options of the webhook.
type Options struct {
	Listen string // address
	Inject inject.Options
	// Client may be nil if nothing below is asked for that needs Kubernetes.
	Client    client.Client
	Namespace string   // of the webhook
	Copies    []string // {resource}/{name} of what namespaces with Ray's pods get from the webhook's, see CheckCopies
	// CertDir holds tls.crt and tls.key, as mounted from cert-manager's Secret, which may change. If it is empty the
	// webhook makes its certificate itself, and the following say where it is kept and for whom it is.
	CertDir string
	Service string // the certificate is for {service}.{namespace}.svc
	Secret  string // must exist: the webhook has no right to create Secrets
	Config  string // MutatingWebhookConfiguration
	// ShutdownDelay is how long the webhook serves after ctx has ended: until the API server asks this replica no more.
	ShutdownDelay time.Duration
	Log           logrus.FieldLogger
}

// AsksNamespaces says whether Kubernetes is asked about the namespaces of objects.
func (o Options) AsksNamespaces() bool { return len(o.Copies) > 0 || o.Inject.ServiceAccount != "" }

// AddToScheme adds the types that the webhook's client needs.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(corev1.AddToScheme(s), admissionregistrationv1.AddToScheme(s))
}

// Run serves the webhook until ctx has ended and the shutdown delay has passed. Without a folder of certificates it
// makes its own and renews it.
func Run(ctx context.Context, o Options) error {
	ctrllog.SetLogger(logr.Discard()) // its errors come back from Start, its requests are logged here
	host, port, err := splitListen(o.Listen)
	if err != nil {
		return err
	}
	ctx, stop := endingLater(ctx, o.ShutdownDelay)
	defer stop()
	server := webhook.NewServer(webhook.Options{Host: host, Port: port, CertDir: o.CertDir})
	if o.CertDir == "" {
		c := &certs{Options: o}
		if err := c.syncOnce(ctx); err != nil {
			return err
		}
		go c.keep(ctx)
		server = webhook.NewServer(webhook.Options{Host: host, Port: port,
			TLSOpts: []func(*tls.Config){func(t *tls.Config) { t.GetCertificate = c.get }}})
	}
	h := &handler{Options: o}
	if o.AsksNamespaces() {
		h.copier = newCopier(o)
	}
	server.Register(webhookPath, &webhook.Admission{Handler: h})
	server.Register("/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	}))
	o.Log.WithField("address", o.Listen).Info("serving the admission webhook")
	if err := server.Start(ctx); err != nil {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}

// endingLater is a context that ends some time after another one.
func endingLater(ctx context.Context, delay time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		_ = backoff.Sleep(later, delay)
		cancel()
	})
	return later, func() { stop(); cancel() }
}

// keep renews the certificate until ctx ends.
func (c *certs) keep(ctx context.Context) {
	for backoff.Sleep(ctx, syncEvery) == nil {
		if err := c.syncOnce(ctx); err != nil {
			c.Log.WithError(err).Error("cannot renew the webhook's certificate")
		}
	}
}

// splitListen splits the address to listen on; host may be empty.
func splitListen(listen string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(listen)
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("--webhook-listen=%q: want an address and port such as :9443", listen)
	}
	return host, port, nil
}
