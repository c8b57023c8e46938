package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/pkg/access"
	"github.com/rayhistory/historyserver/pkg/kube"
	"github.com/rayhistory/historyserver/pkg/settings"
)

// kubernetesOptions are the settings of what the server asks Kubernetes, and of who may use it.
type kubernetesOptions struct {
	live          kube.Config
	access        access.Config
	tls           access.TLS
	shutdownDelay time.Duration

	enableLive bool // KubeRay's spelling
}

func (o *kubernetesOptions) addFlags(fs *pflag.FlagSet) {
	o.live.AddFlags(fs)
	o.access.AddFlags(fs)
	o.tls.AddFlags(fs)
	settings.Secret(fs, access.Secrets...)
	fs.DurationVar(&o.shutdownDelay, "shutdown-delay", 0, "how long the server goes on after SIGTERM while /readyz already says no: what a Service needs to send requests elsewhere")
	fs.BoolVar(&o.enableLive, "enable-live-clusters", false, "the same as --live=proxy, and false as --live=off")
	for _, name := range []string{"use-auth-token-mode", "session-process-timeout"} {
		fs.String(name, "", "has no effect: taken so that manifests for KubeRay's history server work")
		fs.Lookup(name).Hidden = true
		fs.Lookup(name).NoOptDefVal = "true"
	}
}

func (o *kubernetesOptions) complete(fs *pflag.FlagSet) error {
	if o.shutdownDelay < 0 {
		return fmt.Errorf("--shutdown-delay=%s: want at least 0", o.shutdownDelay)
	}
	if !fs.Changed("enable-live-clusters") {
		return nil
	}
	want := kube.Off
	if o.enableLive {
		want = kube.Proxy
	}
	if fs.Changed("live") && o.live.Live != want {
		return fmt.Errorf("--live=%s contradicts --enable-live-clusters=%t", o.live.Live, o.enableLive)
	}
	o.live.Live = want
	return nil
}

// open makes what follows running clusters, nil if nothing is to, and what decides who may see what.
func (o *kubernetesOptions) open(log logrus.FieldLogger) (*kube.Clusters, *access.Access, error) {
	live, err := kube.Open(o.live, log)
	if err != nil {
		return nil, nil, err
	}
	var asked client.Client
	if o.access.Auth == access.Kubernetes {
		if asked, err = o.live.Client(access.AddToScheme); err != nil {
			return nil, nil, fmt.Errorf("--auth=kubernetes: %w", err)
		}
	}
	allowed, err := access.New(o.access, asked, log)
	return live, allowed, err
}

// secure makes listener one for HTTPS if there is a certificate. Changes of its files are followed until ctx ends.
func (o *kubernetesOptions) secure(ctx context.Context, listener net.Listener, log logrus.FieldLogger) (net.Listener, error) {
	config, watch, err := o.tls.Config()
	if err != nil || config == nil {
		return listener, err
	}
	go func() {
		if err := watch(ctx); err != nil {
			log.WithError(err).Error("changes of the certificate cannot be followed")
		}
	}()
	return tls.NewListener(listener, config), nil
}
