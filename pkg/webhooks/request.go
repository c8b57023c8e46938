package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rayhistory/historyserver/internal/backoff"
	"github.com/rayhistory/historyserver/pkg/blob/redact"
)

// Headers of a request.
const (
	headerSignature = "Rayhistory-Signature" // t={Unix s},v1={hex of HMAC-SHA256 of "{t}.{body}"}
	headerID        = "Rayhistory-Event-Id"
	headerType      = "Rayhistory-Event-Type"
)

// maxAnswer is how many bytes of an answer are read; an error shows fewer.
const maxAnswer, maxShown = 4 << 10, 200

// sign returns the value of headerSignature for a body that is sent at this time.
func sign(secret, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// newHTTPClient returns a client that sends requests to configured addresses only: it follows no redirect.
func newHTTPClient(timeout time.Duration) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	transport.MaxIdleConnsPerHost = 2
	return &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// busyError is the error of a receiver that wants fewer requests: 429, or 503 with Retry-After. wait is for how long it
// wants none; 0 if it does not say.
type busyError struct {
	error
	wait time.Duration
}

// send sends an event to a receiver, by HTTP or e-mail. The error contains neither its address nor its secret. It is a
// busyError if the receiver answers that it wants fewer requests.
func send(ctx context.Context, c *http.Client, r *Receiver, e *Event) error {
	format := r.format()
	if format.body == nil {
		var trust *tls.Config // nil: the system's certificates
		return sendMail(ctx, c.Timeout, trust, r, e)
	}
	body, err := encode(r, e)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address, bytes.NewReader(body))
	if err != nil {
		return errors.New("the receiver's address cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "ray-history-server")
	if format.headers {
		req.Header.Set(headerID, e.ID)
		req.Header.Set(headerType, e.Type)
	}
	if format.headers && r.secret != nil {
		req.Header.Set(headerSignature, sign(r.secret, body, time.Now()))
	}
	hide := redact.New(append(partsOf(req.URL), r.address, string(r.secret))...)
	resp, err := c.Do(req)
	if err != nil {
		if withAddress, ok := errors.AsType[*url.Error](err); ok {
			err = withAddress.Err
		}
		return hide.Error(err)
	}
	defer func() { _ = resp.Body.Close() }()
	return checkAnswer(resp, hide)
}

// checkAnswer returns why a receiver did not take an event, as send does; nil: it took it. hide hides its secrets in
// what it answered.
func checkAnswer(resp *http.Response, hide *redact.Redactor) error {
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer)) // only for the error below
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("it answered %d: redirects are not followed; configure the address of the redirect",
			resp.StatusCode)
	}
	shown := hide.Text(string(answer)) // before it is cut, because the beginning of a secret would not be found
	err := fmt.Errorf("it answered %d: %q", resp.StatusCode, shown[:min(maxShown, len(shown))])
	wait := backoff.Requested(resp.Header)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable && wait > 0 {
		return busyError{err, wait}
	}
	return err
}

// partsOf returns the parts of an address that an error or an answer may repeat. Each may be a secret that only the
// receiver and the server should know.
func partsOf(address *url.URL) []string {
	parts := []string{address.Host, address.Hostname(), address.RequestURI(), address.Path, address.RawQuery}
	parts = append(parts, strings.Split(address.Path, "/")...)
	for _, values := range address.Query() {
		parts = append(parts, values...)
	}
	return parts
}

type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	givenUp  *prometheus.CounterVec
	errors   prometheus.Counter
}

// newMetrics makes and registers the metrics of a sender.
func newMetrics(registerer prometheus.Registerer, s *Sender) metrics {
	factory := promauto.With(registerer)
	factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "historyserver_webhooks_sessions",
		Help: "Ended sessions, and failed jobs of running ones, that receivers of webhooks are still to be told of.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.work))
	})
	return metrics{
		requests: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_webhooks_requests_total", Help: "Events sent to receivers of webhooks, by result.",
		}, []string{"receiver", "result"}),
		seconds: factory.NewHistogram(prometheus.HistogramOpts{
			Name: "historyserver_webhooks_request_seconds", Help: "Time that a receiver of webhooks takes.",
			Buckets: prometheus.ExponentialBuckets(.01, 3, 8),
		}),
		givenUp: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "historyserver_webhooks_given_up_total", Help: "Events that a receiver did not take for a day.",
		}, []string{"receiver"}),
		errors: factory.NewCounter(prometheus.CounterOpts{
			Name: "historyserver_webhooks_errors_total",
			Help: "What webhooks could not read from the store or note in it.",
		}),
	}
}
