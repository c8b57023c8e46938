package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/server/access"
)

// kubernetesOptions are the settings of running clusters and of access.
type kubernetesOptions struct {
	live          kube.Config
	access        access.Config
	tls           access.TLS
	shutdownDelay time.Duration

	enableLive bool   // the setting live in KubeRay's form
	collectors string // the tag that images of collectors should have; see collectorVersion
}

// addFlags binds the settings to flags. It also adds flags of KubeRay's history server that have no effect here.
func (o *kubernetesOptions) addFlags(fs *pflag.FlagSet) {
	settings.Group(fs, "Running clusters", o.live.AddFlags)
	settings.Group(fs, "Access", o.access.AddFlags)
	settings.Group(fs, "HTTPS", o.tls.AddFlags)
	settings.Secret(fs, access.Secrets...)
	fs.DurationVar(&o.shutdownDelay, "shutdown-delay", 0,
		"after SIGTERM, keep serving this long while /readyz already fails, so that a Service stops sending requests")
	fs.BoolVar(&o.enableLive, "enable-live-clusters", false, "the same as --live=proxy; false is --live=off")
	fs.StringVar(&o.collectors, "live-collector-version", "",
		"tag of the image that collectors of running clusters should have, for historyserver coverage; empty: the "+
			"server's version; any: it does not matter")
	settings.Heading(fs, "Running clusters", "enable-live-clusters", "live-collector-version")
	settings.Heading(fs, "Server", "shutdown-delay")
	for _, name := range []string{
		"use-auth-token-mode", "session-process-timeout", "session-cache-size", "session-cache-max-bytes",
		"session-cache-ttl", "kube-api-qps", "kube-api-burst",
	} {
		fs.String(name, "", "no effect; accepted for manifests of KubeRay's history server")
		fs.Lookup(name).Hidden = true
		if name == "use-auth-token-mode" {
			fs.Lookup(name).NoOptDefVal = "true"
		}
	}
}

// complete checks the settings, and sets live by --enable-live-clusters if that is given.
func (o *kubernetesOptions) complete(fs *pflag.FlagSet) error {
	if o.shutdownDelay < 0 {
		return fmt.Errorf("--shutdown-delay=%s: want at least 0", o.shutdownDelay)
	}
	if name := o.access.KubernetesCluster; name != "" {
		if err := layout.CheckKubernetesCluster(name); err != nil {
			return fmt.Errorf("--kubernetes-cluster=%w", err)
		}
	}
	if o.access.Auth == access.OIDC {
		if err := o.access.OIDC.Check(); err != nil {
			return err
		}
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

// open makes the list of running clusters, which is nil if the settings do not want it, and the access rules.
func (o *kubernetesOptions) open(log logrus.FieldLogger) (*kube.Clusters, *access.Access, error) {
	if o.access.AsksKubernetes() && len(o.live.Kubeconfigs) > 1 {
		return nil, nil, fmt.Errorf("--auth=%s supports one Kubernetes cluster, because a namespace of the same name "+
			"may belong to others in another cluster: run a history server for each of --kubeconfigs, or name "+
			"the others in --kubernetes-clusters", o.access.Auth)
	}
	o.live.Anonymous = o.access.Auth == access.Off // callers do not say who they are
	live, err := kube.Open(o.live, log)
	if err != nil {
		return nil, nil, err
	}
	var reviewer client.Client
	if o.access.AsksKubernetes() {
		if reviewer, err = o.live.Client(access.AddToScheme); err != nil {
			return nil, nil, fmt.Errorf("--auth=%s: %w", o.access.Auth, err)
		}
	}
	if file := o.access.KubernetesClusters; file != "" {
		if o.access.Clients, err = kube.ClientsOf(file, access.AddToScheme); err != nil {
			return nil, nil, fmt.Errorf("--kubernetes-clusters=%s: %w", file, err)
		}
	}
	allowed, err := access.New(o.access, reviewer, log)
	return live, allowed, err
}

// collectorVersion is the tag that images of collectors should have; "" if any will do.
func (o *kubernetesOptions) collectorVersion() string {
	switch wanted := cmp.Or(o.collectors, version); wanted {
	case "any", "unknown":
		return ""
	default:
		return wanted
	}
}

// withTLS returns a listener for HTTPS, or the listener itself if no certificate is set. It reads the certificate's
// files again when they change, until ctx ends.
func (o *kubernetesOptions) withTLS(ctx context.Context, listener net.Listener, log logrus.FieldLogger) (net.Listener,
	error) {
	config, watch, err := o.tls.Config()
	if err != nil || config == nil {
		return listener, err
	}
	go func() {
		if err := watch(ctx); err != nil {
			log.WithError(err).Error("cannot watch the certificate for changes")
		}
	}()
	return tls.NewListener(listener, config), nil
}
