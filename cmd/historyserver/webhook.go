package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/logging"
	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/pkg/blob/backend"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject/admission"
	"github.com/rayhistory/historyserver/pkg/kubernetes/kube"
)

// webhookOptions are the settings of `historyserver webhook`.
type webhookOptions struct {
	admission.Options
	kube kube.Config
	log  logging.Options
}

// webhookCommand makes `historyserver webhook`, the admission webhook.
func webhookCommand() *cobra.Command {
	o := webhookOptions{Options: admission.Options{Inject: inject.Default()}}
	o.Inject.Backends = backend.Names()
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Run the admission webhook, which adds collectors to KubeRay's objects",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := o.complete(cmd.Flags(), os.Environ())
			if err == nil {
				o.Log, err = o.log.New(os.Stderr)
			}
			if err != nil {
				return settings.UsageError(err)
			}
			return admission.Run(cmd.Context(), o.Options)
		},
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags binds the settings to flags.
func (o *webhookOptions) addFlags(fs *pflag.FlagSet) {
	o.Inject.AddFlags(fs)
	fs.StringVar(&o.Listen, "webhook-listen", ":9443", "address to listen on, HTTPS")
	fs.StringVar(&o.CertDir, "webhook-cert-dir", "",
		"folder with tls.crt and tls.key, for example from cert-manager; empty: the webhook creates its own "+
			"certificate")
	fs.StringVar(&o.Namespace, "webhook-namespace", "default", "namespace of the webhook")
	fs.StringVar(&o.Service, "webhook-service", "ray-history-webhook",
		"Service of the webhook, named in its certificate")
	fs.StringVar(&o.Secret, "webhook-secret", "ray-history-webhook", "Secret that holds the certificate")
	fs.StringVar(&o.Config, "webhook-configuration", "ray-history-webhook",
		"MutatingWebhookConfiguration that gets the CA of the certificate")
	fs.StringSliceVar(&o.Copies, "webhook-copy", nil,
		"what namespaces get from the webhook's namespace when a collector is added there, such as "+
			"configmaps/ray-history-storage (also secrets, serviceaccounts, networkpolicies)")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay", 0,
		"after SIGTERM, keep serving this long, so that the Service stops sending requests")
	fs.StringSliceVar(&o.kube.Kubeconfigs, "kubeconfigs", nil, "kubeconfig file, one; default: the pod's service account")
	o.log.AddFlags(fs)
	settings.Bind(fs, map[string][]string{"webhook-namespace": {"POD_NAMESPACE"}})
}

// complete reads the settings that the command line does not set, checks all of them, and makes the client of
// Kubernetes unless the settings need none.
func (o *webhookOptions) complete(fs *pflag.FlagSet, environ []string) error {
	if err := settings.Load(fs, environ); err != nil {
		return err
	}
	if err := o.Inject.Check(); err != nil {
		return err
	}
	if err := admission.CheckCopies(o.Copies); err != nil {
		return err
	}
	if o.ShutdownDelay < 0 {
		return fmt.Errorf("--shutdown-delay=%s: want at least 0", o.ShutdownDelay)
	}
	if len(o.kube.Kubeconfigs) > 1 {
		return errors.New("--kubeconfigs: a webhook is for one Kubernetes cluster")
	}
	if o.CertDir != "" && !o.AsksNamespaces() {
		return nil
	}
	var err error
	o.Client, err = o.kube.Client(admission.AddToScheme)
	return err
}
