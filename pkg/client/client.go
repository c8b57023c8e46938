// Package client asks a history server over HTTP, for commands and for assistants.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/internal/jsonstream"
)

const (
	// maxAnswer bounds an answer that is read whole, in bytes, and maxValues its values, each of which may take
	// hundreds when it is decoded. The largest totals of a fleet have a million.
	maxAnswer, maxValues = 64 << 20, 2_000_000
	// maxRow bounds one element of a list, in bytes.
	maxRow = 8 << 20
	// maxError is how many bytes are read of an answer that says what went wrong.
	maxError = 64 << 10
	// maxShown is how many bytes of the server's text an error repeats.
	maxShown = 2000
	// longestWait is how long a patient client sends a request again that the server is not ready to answer.
	longestWait = 10 * time.Minute
	// longestPause is the longest pause between two of these requests, whatever the server asks for.
	longestPause = time.Minute
)

// Client sends requests to one server.
type Client struct {
	base *url.URL
	http *http.Client
	// Patient has requests that are answered 503 with Retry-After sent again, as for a session that is being loaded.
	// OnWait, if set, is called before each pause.
	Patient bool
	OnWait  func(why string)
	// OnWarning, if set, is called with the server's warning that an answer is old or lacks something.
	OnWarning func(warning string)
}

// New makes a client of the server at base, whose path ends with a slash. The transport adds the user's token to
// requests. Redirects are not followed, because the server that they lead to would get the token.
func New(base *url.URL, transport http.RoundTripper) *Client {
	return &Client{base: base, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ParseBase reads the address of a server, or of its list of sessions, and adds a slash to its path. The error has
// neither the address nor the error of package url in it, because they may contain a password.
func ParseBase(address string) (*url.URL, error) {
	root := strings.TrimRight(address, "/")
	if !strings.HasSuffix(root, "://homepage") { // a host's name
		root = strings.TrimRight(strings.TrimSuffix(root, "/homepage"), "/")
	}
	base, err := url.Parse(root + "/")
	if err != nil || base.Hostname() == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" ||
		base.Fragment != "" {
		return nil, errors.New("--server: want an address such as https://history.example.com")
	}
	return base, nil
}

// Server is the address of the server, without a password.
func (c *Client) Server() string { return strings.TrimSuffix(c.base.Redacted(), "/") }

// Address is the URL at which a person can open a path of the server. It has no user and password.
func (c *Client) Address(path string) (string, error) {
	address, err := c.base.Parse(path)
	if err != nil {
		return "", err
	}
	address.User = nil
	return address.String(), nil
}

// Get requests a path, relative to the server's root. The caller closes the body of the answer.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.send(ctx, http.MethodGet, path, nil)
}

// Data requests a path whose answer has the envelope of Ray's State API, and decodes the data in it.
func (c *Client) Data(ctx context.Context, path string, query url.Values, into any) error {
	answer, err := c.Get(ctx, path, query)
	if err != nil {
		return err
	}
	return c.readData(answer, into)
}

// Post sends a body as JSON, and decodes the data of the answer.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := c.send(ctx, http.MethodPost, path, sent)
	if err != nil {
		return err
	}
	return c.readData(answer, into)
}

// readData decodes the data of an answer in the envelope of Ray's State API, and closes its body. The error says why
// the answer cannot be read or, with result false, what the server says.
func (c *Client) readData(answer *http.Response, into any) error {
	defer answer.Body.Close()
	envelope := struct {
		Result bool   `json:"result"`
		Msg    string `json:"msg"`
		Data   any    `json:"data"`
	}{Data: into}
	body := &boundedAnswer{answer.Body, maxAnswer, maxValues}
	if err := json.NewDecoder(body).Decode(&envelope); err != nil {
		return c.unreadableError(err)
	}
	if !envelope.Result {
		return fmt.Errorf("the server answers: %.*s", maxShown, envelope.Msg)
	}
	return nil
}

// boundedAnswer reads JSON, of which it returns at most this many bytes and about this many values; then an error.
type boundedAnswer struct {
	io.Reader
	bytes, values int
}

// Read implements io.Reader.
func (b *boundedAnswer) Read(p []byte) (n int, err error) {
	if b.bytes <= 0 || b.values <= 0 {
		return 0, errors.New("it is too large")
	}
	n, err = b.Reader.Read(p[:min(len(p), b.bytes)])
	b.bytes, b.values = b.bytes-n, b.values-jsonstream.Values(p[:n])
	return n, err
}

func (c *Client) unreadableError(err error) error {
	return fmt.Errorf("the answer of %s cannot be read (%w): is it a history server, and as new as this program? "+
		"`historyserver --version` tells this program's version",
		c.Server(), err)
}

// send sends a request. A patient client sends it again for up to longestWait while the server asks for that.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	for began := time.Now(); ; {
		answer, err := c.sendOnce(ctx, method, path, body)
		var refused *Error
		again := c.Patient && errors.As(err, &refused) && refused.RetryAfter > 0 &&
			time.Since(began)+refused.RetryAfter <= longestWait
		if !again {
			return answer, err
		}
		if c.OnWait != nil {
			c.OnWait(refused.Message)
		}
		if backoff.Sleep(ctx, refused.RetryAfter) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// sendOnce sends a request, and returns an answer with status 200 that is no HTML page. Any other answer is an *Error.
func (c *Client) sendOnce(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	to, err := c.base.Parse(path)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.unreachableError(err)
	}
	kind := answer.Header.Get("Content-Type")
	if answer.StatusCode == http.StatusOK && !strings.Contains(kind, "html") {
		if _, warning, ok := strings.Cut(answer.Header.Get("Warning"), `"`); ok && c.OnWarning != nil {
			c.OnWarning(strings.TrimSuffix(warning, `"`))
		}
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // a part of the text is better than none
	return nil, c.refusalError(answer, kind, text)
}

// Error is an answer that is not what was requested.
type Error struct {
	Status     int
	Message    string        // which server answered what
	RetryAfter time.Duration // after which pause the server asks for the request again; 0: it does not

	advice string // what to do; "" for none
}

func (e *Error) Error() string {
	text := e.Message
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

// refusalError makes the error for an answer that is not what was requested: one with another status than 200, or a
// page. It advises by what is likely wrong: no history server, a proxy in front of it, an old version, no sign-in. The
// caller may send the request again after RetryAfter, if that is set. contentType is the answer's, text its body.
func (c *Client) refusalError(answer *http.Response, contentType string, text []byte) error {
	server, status := c.Server(), answer.StatusCode
	said, ours := errorMessage(text)
	e := &Error{Status: status, Message: said}
	if e.Message == "" || strings.Contains(contentType, "html") {
		e.Message = "it says nothing more"
	}
	full := fmt.Sprintf("%s answers %d %s: %s", server, status, http.StatusText(status), e.Message)
	switch {
	case status == http.StatusOK:
		e.Message = server + " answers with a page"
		e.advice = "is it a history server? A proxy that has people sign in answers programs like this: use an " +
			"address behind it"
	case status >= 300 && status < 400:
		e.Message = fmt.Sprintf("%s redirects to %s, which is not followed, because it would get your token", server,
			c.redirectTarget(answer))
		e.advice = "use the address that answers directly; if that is a page to sign in, one behind its proxy"
	case status == http.StatusUnauthorized:
		e.Message, e.advice = full, "sign in with `historyserver login --server "+server+"`, or set --token-file"
	case !ours && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed):
		e.Message, e.advice = full, "is it a history server, and as new as this program? `historyserver --version` "+
			"tells this program's version"
	case status == http.StatusServiceUnavailable:
		e.Message, e.RetryAfter = full, min(backoff.Requested(answer.Header), longestPause)
	default:
		e.Message = full
	}
	return e
}

// redirectTarget is the address that an answer redirects to, without its user, password and query, which may be secret.
func (c *Client) redirectTarget(answer *http.Response) string {
	to, err := answer.Location()
	if err != nil {
		return "nowhere"
	}
	return fmt.Sprintf("%.200s", (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String())
}

// errorMessage returns, as a short text, the reason that the body of an answer gives for refusing a request. ours says
// that the body is in the envelope of Ray's State API or of Prometheus's API, as all refusals of a history server are.
func errorMessage(text []byte) (reason string, ours bool) {
	var envelope struct {
		Msg   string `json:"msg"`
		Error string `json:"error"`     // of PromQL's API
		Kind  string `json:"errorType"` // of PromQL's API; other servers do not send it
	}
	reason = string(text)
	if json.Unmarshal(text, &envelope) == nil {
		reason = cmp.Or(envelope.Msg, envelope.Error)
		ours = envelope.Msg != "" || envelope.Kind != ""
	}
	reason = strings.TrimSpace(reason)
	return strings.ToValidUTF8(reason[:min(len(reason), maxShown)], ""), ours
}

// unreachableError makes the error that says why a server did not answer, and what to do. err is the error of
// http.Client.
func (c *Client) unreachableError(err error) error {
	if withURL, ok := errors.AsType[*url.Error](err); ok { // its text repeats the whole address
		err = withURL.Err
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
