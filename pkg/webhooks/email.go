package webhooks

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/rayhistory/historyserver/pkg/blob/redact"
)

// Schemes of the address of an e-mail server, with their usual ports.
const (
	schemeTLS      = "smtps"
	schemeStartTLS = "smtp"       // TLS after STARTTLS; without it nothing is sent
	schemePlain    = "smtp+plain" // no TLS
)

var mailPorts = map[string]string{schemeTLS: "465", schemeStartTLS: "587", schemePlain: "25"}

// maxRecipients bounds Receiver.To; maxMailAnswers is how many bytes of a server's answers are read for one message.
const maxRecipients, maxMailAnswers = 20, 256 << 10

// checkMail checks the settings that only receivers of e-mail have; others must not have them.
func (r *Receiver) checkMail() error {
	if r.Format != Email {
		if r.From != "" || r.To != nil || r.User != "" {
			return errors.New("from, to and user are for the format email")
		}
		return nil
	}
	if len(r.To) == 0 || len(r.To) > maxRecipients {
		return fmt.Errorf("to: %d addresses: want 1 to %d", len(r.To), maxRecipients)
	}
	for _, address := range append([]string{r.From}, r.To...) {
		if _, err := netmail.ParseAddress(address); err != nil {
			return fmt.Errorf("from, to: %q: want an address such as ray@example.com", address)
		}
	}
	scheme, _, _ := strings.Cut(r.address, ":")
	switch plain := strings.EqualFold(scheme, schemePlain); {
	case (r.User == "") != (r.SecretFile == ""):
		return errors.New("want both user and secret_file, which holds the password, or neither")
	case r.User != "" && plain:
		return fmt.Errorf("user: a password is not sent without TLS: use %s or %s", schemeStartTLS, schemeTLS)
	}
	return nil
}

// sendMail sends an event as e-mail, and ends after limit. trust has the certificates of servers to trust; nil: the
// system's. The error contains neither the server's address nor the password.
func sendMail(ctx context.Context, limit time.Duration, trust *tls.Config, r *Receiver, e *Event) error {
	m, err := message(r, e)
	if err != nil {
		return err
	}
	server, err := url.Parse(r.address)
	if err != nil {
		return errors.New("the receiver's address cannot be used")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dialer := &mailDialer{ctx: ctx, server: server, secure: cmp.Or(trust, &tls.Config{}).Clone()}
	client, err := dialer.newClient(limit, r)
	if err == nil {
		err = client.DialAndSendWithContext(ctx, m)
	}
	switch {
	case err == nil, m.IsDelivered(): // errors after the delivery do not count, or it would be sent twice
		return nil
	case ctx.Err() != nil:
		err = ctx.Err() // says more than that the connection is closed
	}
	login := "\x00" + r.User + "\x00" + string(r.secret)
	hide := redact.New(r.address, server.Host, server.Hostname(), string(r.secret), asSent(string(r.secret)),
		asSent(login)) // a server's error may repeat what it did not understand
	text := hide.Text(err.Error()) // before it is cut, because the beginning of a secret would not be found
	return fmt.Errorf("the e-mail was not sent: %s", strings.ToValidUTF8(text[:min(2*maxShown, len(text))], ""))
}

// message returns an event as an e-mail with plain text. When it is sent again it has the same Message-ID, so mailboxes
// recognise it.
func message(r *Receiver, e *Event) (*mail.Msg, error) {
	from, err := netmail.ParseAddress(r.From)
	if err != nil {
		return nil, err
	}
	subject, text, _ := strings.Cut(plainText(e), "\n")
	text = withoutLinks(strings.TrimSpace(subject + "\n\n" + text))
	if e.URL != "" {
		text += "\n\nFindings: " + e.URL
	}
	m := mail.NewMsg()
	m.Subject(subject)
	m.SetBodyString(mail.TypeTextPlain, text+"\n")
	m.SetMessageIDWithValue(e.ID + "." + r.Name + from.Address[strings.LastIndexByte(from.Address, '@'):])
	m.SetUserAgent("ray-history-server")
	m.SetGenHeader("Auto-Submitted", "auto-generated") // so no out-of-office reply answers it
	m.SetGenHeader(headerID, e.ID)
	m.SetGenHeader(headerType, e.Type)
	return m, errors.Join(m.From(r.From), m.To(r.To...))
}

// asSent returns a part of a login as it is sent, in base64.
func asSent(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// mailDialer makes the connection to a server of e-mail, and closes it when ctx ends. The client itself leaves it open
// after errors, and waits for answers even if its context has ended.
type mailDialer struct {
	ctx    context.Context
	server *url.URL
	secure *tls.Config
}

// newClient returns a client for the receiver's server whose requests end after limit. It sends the password only
// through TLS.
func (d *mailDialer) newClient(limit time.Duration, r *Receiver) (*mail.Client, error) {
	d.secure.ServerName, d.secure.MinVersion = d.server.Hostname(), tls.VersionTLS12
	policy := mail.NoTLS
	if d.server.Scheme == schemeStartTLS {
		policy = mail.TLSMandatory
	}
	options := []mail.Option{mail.WithTimeout(limit), mail.WithDialContextFunc(d.dial), mail.WithTLSConfig(d.secure),
		mail.WithTLSPolicy(policy)}
	if r.User != "" {
		// SCRAM is left out: the server would choose how many rounds the client computes, and TLS protects the
		// password.
		options = append(options, mail.WithUsername(r.User), mail.WithPassword(string(r.secret)),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	return mail.NewClient(d.server.Hostname(), options...)
}

// dial connects to the server of the receiver's address.
func (d *mailDialer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	address := net.JoinHostPort(d.server.Hostname(), cmp.Or(d.server.Port(), mailPorts[d.server.Scheme]))
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(d.ctx, func() { _ = conn.Close() })
	bounded := &boundedConn{conn, maxMailAnswers}
	if d.server.Scheme == schemeTLS {
		return tls.Client(bounded, d.secure), nil
	}
	return bounded, nil
}

// boundedConn is a connection from which at most left bytes are read, because the client reads lines of any length.
type boundedConn struct {
	net.Conn
	left int
}

// Read reads from the server until it has sent more than a mail server needs to.
func (c *boundedConn) Read(p []byte) (n int, err error) {
	if c.left == 0 {
		return 0, errors.New("the mail server's answer is too long")
	}
	n, err = c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// addressForm returns the schemes that a receiver's address may have, and an example of an address.
func (r *Receiver) addressForm() (schemes []string, example string) {
	if r.Format == Email {
		return []string{schemeTLS, schemeStartTLS, schemePlain}, schemeStartTLS + "://mail.example.com:587"
	}
	return []string{"https", "http"}, "https://hooks.example.com/ray"
}

// isUsable says whether an address has one of the schemes, a host and no user. The address of an e-mail server must
// have nothing else.
func (r *Receiver) isUsable(u *url.URL, schemes []string) bool {
	return slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && u.User == nil &&
		(r.Format != Email || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment == "")
}
