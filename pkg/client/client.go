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
	"strconv"
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
	// maxError bounds what is read of an answer that says what went wrong, in bytes.
	maxError = 64 << 10
	// maxShown bounds what an error repeats of a text from elsewhere, in bytes.
	maxShown = 2000
	// longestWait is how long a client asks again for a session that is being loaded, or for the turn of a request.
	longestWait = 10 * time.Minute
	// longestPause bounds what the server may ask a client to wait between two requests.
	longestPause = time.Minute
)

// Client sends requests to one server.
type Client struct {
	base *url.URL
	http *http.Client
	// Patient makes requests that are answered 503 with Retry-After be sent again; Waiting, if there is one, hears why.
	Patient bool
	Waiting func(why string)
	// Warned, if set, hears the server's warning with an answer that is old or lacks something.
	Warned func(warning string)
}

// New makes a client of the server at base, whose path ends with a slash. The transport adds what identifies the user.
// Redirects are never followed: where they lead would get the user's token.
func New(base *url.URL, transport http.RoundTripper) *Client {
	return &Client{base: base, http: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// ParseBase reads the address of a server. Neither its value nor url's error is in the error: they may contain a
// password.
func ParseBase(address string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimRight(address, "/") + "/")
	if err != nil || base.Hostname() == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" ||
		base.Fragment != "" {
		return nil, errors.New("--server: want an address such as https://history.example.com")
	}
	return base, nil
}

// Server is the address of the server, without a password.
func (c *Client) Server() string { return strings.TrimSuffix(c.base.Redacted(), "/") }

// Address is where a person can open a path. It lacks the base's user and password.
func (c *Client) Address(path string) (string, error) {
	address, err := c.base.Parse(path)
	if err != nil {
		return "", err
	}
	address.User = nil
	return address.String(), nil
}

// Get asks for a path below the base. The caller closes the answer's body.
func (c *Client) Get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.send(ctx, http.MethodGet, path, nil)
}

// Data asks for a path whose answer has the envelope of Ray's State API, and reads its data.
func (c *Client) Data(ctx context.Context, path string, query url.Values, into any) error {
	answer, err := c.Get(ctx, path, query)
	if err != nil {
		return err
	}
	return c.read(answer, into)
}

// Post sends JSON, and reads the data of the answer.
func (c *Client) Post(ctx context.Context, path string, body, into any) error {
	sent, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := c.send(ctx, http.MethodPost, path, sent)
	if err != nil {
		return err
	}
	return c.read(answer, into)
}

// read decodes an answer in the envelope of Ray's State API: its data go into into.
func (c *Client) read(answer *http.Response, into any) error {
	defer answer.Body.Close()
	envelope := struct {
		Result bool   `json:"result"`
		Msg    string `json:"msg"`
		Data   any    `json:"data"`
	}{Data: into}
	body := &boundedAnswer{answer.Body, maxAnswer, maxValues}
	if err := json.NewDecoder(body).Decode(&envelope); err != nil {
		return c.unreadable(err)
	}
	if !envelope.Result {
		return fmt.Errorf("the server answers: %.*s", maxShown, envelope.Msg)
	}
	return nil
}

// boundedAnswer is JSON of which at most so many bytes and values are read.
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

// unreadable is an answer that is not what this program expects.
func (c *Client) unreadable(err error) error {
	return fmt.Errorf("the answer of %s cannot be read (%w): is it a history server, and as new as this program? "+
		"`historyserver --version` tells this program's version",
		c.Server(), err)
}

// send sends a request until it is answered.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	for began := time.Now(); ; {
		answer, err := c.once(ctx, method, path, body)
		var refused *Error
		if err == nil || !c.Patient || !errors.As(err, &refused) || refused.RetryAfter == 0 ||
			time.Since(began)+refused.RetryAfter > longestWait {
			return answer, err
		}
		if c.Waiting != nil {
			c.Waiting(refused.Message)
		}
		if backoff.Sleep(ctx, refused.RetryAfter) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// once sends a request, whose answer has status 200.
func (c *Client) once(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
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
		return nil, c.unreachable(err)
	}
	kind := answer.Header.Get("Content-Type")
	if answer.StatusCode == http.StatusOK && !strings.Contains(kind, "html") {
		if _, warning, ok := strings.Cut(answer.Header.Get("Warning"), `"`); ok && c.Warned != nil {
			c.Warned(strings.TrimSuffix(warning, `"`))
		}
		return answer, nil
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxError)) // what there is of it
	return nil, c.refused(answer, kind, text)
}

// Error is an answer other than 200.
type Error struct {
	Status     int
	Message    string        // what the server said
	RetryAfter time.Duration // when to ask again; 0: not at all

	advice string
}

func (e *Error) Error() string {
	text := e.Message
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

// refused is the error for an answer that is not what was asked for. kind is its Content-Type, text its body.
func (c *Client) refused(answer *http.Response, kind string, text []byte) error {
	server, status := c.Server(), answer.StatusCode
	said, ours := message(text)
	e := &Error{Status: status, Message: said}
	if e.Message == "" || strings.Contains(kind, "html") {
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
			c.redirect(answer))
		e.advice = "use the address that answers directly; if that is a page to sign in, one behind its proxy"
	case status == http.StatusUnauthorized:
		e.Message, e.advice = full, "sign in with `historyserver login --server "+server+"`, or set --token-file"
	case !ours && (status == http.StatusNotFound || status == http.StatusMethodNotAllowed):
		e.Message, e.advice = full, "is it a history server, and as new as this program? `historyserver --version` "+
			"tells this program's version"
	case status == http.StatusServiceUnavailable:
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err == nil && seconds > 0 {
			e.RetryAfter = min(time.Duration(seconds)*time.Second, longestPause)
		}
		e.Message = full
	default:
		e.Message = full
	}
	return e
}

// redirect is where an answer leads, without what may be secret.
func (c *Client) redirect(answer *http.Response) string {
	to, err := answer.Location()
	if err != nil {
		return "nowhere"
	}
	return fmt.Sprintf("%.200s", (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String())
}

// message returns why a request was refused, by the body of the answer, as a short text. ours says that the body is in
// the envelope of Ray's State API or of PromQL's, as all refusals of a history server are: they have the advice, too.
func message(text []byte) (reason string, ours bool) {
	var envelope struct {
		Msg   string `json:"msg"`
		Error string `json:"error"`     // of PromQL's API
		Kind  string `json:"errorType"` // as Error; other servers have none
	}
	reason = string(text)
	if json.Unmarshal(text, &envelope) == nil {
		reason = cmp.Or(envelope.Msg, envelope.Error)
		ours = envelope.Msg != "" || envelope.Kind != ""
	}
	reason = strings.TrimSpace(reason)
	return strings.ToValidUTF8(reason[:min(len(reason), maxShown)], ""), ours
}

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
