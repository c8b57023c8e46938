package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// unreachable says why a server did not answer, and what to do.
func (c *Client) unreachable(err error) error {
	var sent *url.Error
	if errors.As(err, &sent) { // its text repeats the whole address
		err = sent.Err
	}
	server := c.Server()
	var unknownCA x509.UnknownAuthorityError
	var wrongHost x509.HostnameError
	var invalid *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var unknownName *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &unknownCA):
		return fmt.Errorf("%s: %w: if a CA of your own signed its certificate, set SSL_CERT_FILE to the file of that "+
			"CA's certificate", server, err)
	case errors.As(err, &wrongHost):
		return fmt.Errorf("%s: %w: use a name that its certificate has", server, err)
	case errors.As(err, &invalid):
		return fmt.Errorf("%s: %w", server, err)
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return fmt.Errorf("%s does not speak HTTPS: use http://, if you trust the network in between", server)
	case errors.As(err, &unknownName):
		return fmt.Errorf("%s: %w: check the address in --server or RAYHISTORY_SERVER", server, err)
	case errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%s did not answer in time (%w): check the address, and that no firewall is in between",
			server, err)
	}
	return fmt.Errorf("%s: %w: check the address in --server or RAYHISTORY_SERVER, and that the server runs", server,
		err)
}
