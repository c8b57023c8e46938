package admission

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

const (
	caLife     = 10 * 365 * 24 * time.Hour
	certLife   = 365 * 24 * time.Hour
	renewAfter = 2 * certLife / 3

	keyCA    = "ca.crt"
	keyCAKey = "ca.key"
)

// certs makes and renews the webhook's certificate, keeps it in a Secret for all replicas, and puts its authority into
// the webhook's configuration. The authority outlives its certificates, so a renewal needs no other change at the same
// time.
type certs struct {
	Options
	current atomic.Pointer[tls.Certificate]
}

// get is for tls.Config.
func (c *certs) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// syncOnce renews the certificate in the Secret if needed, uses the Secret's certificate, and puts its authority into
// the webhook's configuration.
func (c *certs) syncOnce(ctx context.Context) error {
	var secret corev1.Secret
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Client.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: c.Secret}, &secret); err != nil {
			return fmt.Errorf("read Secret %s/%s: %w", c.Namespace, c.Secret, err)
		}
		made, err := c.renew(secret.Data, time.Now())
		if err != nil || made == nil {
			return err
		}
		secret.Data = made
		return c.Client.Update(ctx, &secret) // another replica's may come first: then that is taken
	})
	if err != nil {
		return fmt.Errorf("keep the webhook's certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("read the webhook's certificate: %w", err)
	}
	c.current.Store(&cert)
	return c.publish(ctx, secret.Data[keyCA])
}

// publish puts the authority (PEM) into the webhook's configuration, by which the API server checks this server's
// certificate.
func (c *certs) publish(ctx context.Context, ca []byte) error {
	var config admissionregistrationv1.MutatingWebhookConfiguration
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := c.Client.Get(ctx, types.NamespacedName{Name: c.Config}, &config); err != nil {
			return err
		}
		same := true
		for i := range config.Webhooks {
			w := &config.Webhooks[i].ClientConfig
			same = same && bytes.Equal(w.CABundle, ca)
			w.CABundle = ca
		}
		if same {
			return nil
		}
		return c.Client.Update(ctx, &config)
	})
	if err != nil {
		return fmt.Errorf("publish the webhook's authority to the API server (MutatingWebhookConfiguration %s): %w",
			c.Config, err)
	}
	return nil
}

// renew returns new data for the Secret if the authority or the certificate in it is missing, damaged, soon too old or
// for another name; nil if nothing has to be renewed.
func (c *certs) renew(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	ca, caKey, err := parsePair(data[keyCA], data[keyCAKey])
	if err != nil || now.After(ca.NotAfter.Add(-certLife)) { // a certificate made now would outlive the authority
		if ca, caKey, err = newAuthority(c.Service, now); err != nil {
			return nil, err
		}
		return c.issue(ca, caKey, now)
	}
	cert, _, err := parsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err == nil && now.Before(cert.NotBefore.Add(renewAfter)) && cert.CheckSignatureFrom(ca) == nil &&
		cert.VerifyHostname(c.host()) == nil {
		return nil, nil
	}
	return c.issue(ca, caKey, now)
}

func (c *certs) host() string { return c.Service + "." + c.Namespace + ".svc" }

// issue makes a certificate of this server, signed by ca, and returns all of the secret's data.
func (c *certs) issue(ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time) (map[string][]byte, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: c.host()}, DNSNames: []string{c.host(), c.host() + ".cluster.local"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, key, err := sign(template, ca, caKey)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{keyCA: encodeCert(ca), corev1.TLSCertKey: encodeCert(cert)}
	for name, k := range map[string]*ecdsa.PrivateKey{keyCAKey: caKey, corev1.TLSPrivateKeyKey: key} {
		der, err := x509.MarshalECPrivateKey(k)
		if err != nil {
			return nil, fmt.Errorf("encode a key: %w", err)
		}
		data[name] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	}
	return data, nil
}

// newAuthority makes an authority that signs the certificates of the service name, and its key.
func newAuthority(name string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name + " authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(caLife),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, nil, nil)
}

// sign makes a key and its certificate, signed by an authority or, without one, by itself.
func sign(template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

func encodeCert(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func parsePair(certPEM, keyPEM []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("not an ECDSA key")
	}
	return pair.Leaf, key, nil
}
