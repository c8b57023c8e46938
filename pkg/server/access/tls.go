package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// TLS is how the server proves who it is.
type TLS struct {
	CertFile, KeyFile string
}

// AddFlags binds the files to flags.
func (t *TLS) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.CertFile, "tls-cert-file", "",
		"certificate chain for HTTPS, PEM; changes of the files are picked up without a restart")
	fs.StringVar(&t.KeyFile, "tls-key-file", "", "private key of the certificate, PEM")
}

// Config returns the configuration of HTTPS; nil, and a nil watch, if no files are given. watch reads the files again
// when they change, until its context ends: certificates are renewed while the server runs.
func (t *TLS) Config() (config *tls.Config, watch func(context.Context) error, err error) {
	if t.CertFile == "" && t.KeyFile == "" {
		return nil, nil, nil
	}
	if t.CertFile == "" || t.KeyFile == "" {
		return nil, nil, errors.New("set both --tls-cert-file and --tls-key-file, or neither")
	}
	w, err := certwatcher.New(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("--tls-cert-file=%s --tls-key-file=%s: %w", t.CertFile, t.KeyFile, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: w.GetCertificate,
		NextProtos: []string{"h2", "http/1.1"}}, w.Start, nil
}
