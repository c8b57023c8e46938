package remote

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/rayhistory/historyserver/pkg/blob"
)

// CredentialsError says that there are no credentials for the store, or that their provider refused to give them. It is
// a blob.ErrPermission: trying again soon does not help.
type CredentialsError struct {
	// Set is what to set: flags, environment variables or a role.
	Set string
	Err error
}

// maxCause limits the text of a cause in bytes: SDKs list everything they tried.
const maxCause = 600

func (e *CredentialsError) Error() string {
	cause := strings.Join(strings.FieldsFunc(e.Err.Error(),
		func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")
	if len(cause) > maxCause {
		cause = strings.ToValidUTF8(cause[:maxCause], "") + "…"
	}
	return "no credentials: set " + e.Set + ": " + cause
}

func (e *CredentialsError) Unwrap() []error { return []error{blob.ErrPermission, e.Err} }

// NoCredentials makes a CredentialsError of an error, unless the caller gave up. Only ctx says that: a provider that
// cannot be reached is a timeout, too.
func NoCredentials(ctx context.Context, err error, set string) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &CredentialsError{Set: set, Err: err}
}

// Credentials returns the CredentialsError in err without the errors around it; nil if there is none.
func Credentials(err error) error {
	if missing, ok := errors.AsType[*CredentialsError](err); ok {
		return missing
	}
	return nil
}

// Authorized makes a transport that adds credentials to requests. Its error is a CredentialsError if the credentials
// failed and nothing was sent. authorize wraps the transport that sends requests.
func Authorized(base http.RoundTripper, set string,
	authorize func(http.RoundTripper) (http.RoundTripper, error)) (http.RoundTripper, error) {
	outer, err := authorize(sentRecorder{base})
	if err != nil {
		return nil, NoCredentials(context.Background(), err, set)
	}
	return authorized{outer, set}, nil
}

type sentKey struct{}

// authorized is the transport around the one that adds credentials.
type authorized struct {
	http.RoundTripper
	set string
}

// RoundTrip implements http.RoundTripper. A request that fails before it is sent has found no credentials.
func (a authorized) RoundTrip(request *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	response, err := a.RoundTripper.RoundTrip(request.WithContext(context.WithValue(request.Context(), sentKey{},
		&sent)))
	if err != nil && !sent.Load() {
		err = NoCredentials(request.Context(), err, a.set)
	}
	return response, err
}

// sentRecorder is the inner transport: it records that a request reached it.
type sentRecorder struct{ http.RoundTripper }

func (s sentRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	if sent, ok := request.Context().Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
	return s.RoundTripper.RoundTrip(request)
}
