// Package assistant answers assistants in the Model Context Protocol, at one route of the server. Package mcptools has
// the tools.
package assistant

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/turns"
	"github.com/rayhistory/historyserver/pkg/client"
	"github.com/rayhistory/historyserver/pkg/dashboard"
	"github.com/rayhistory/historyserver/pkg/server/access"
	"github.com/rayhistory/historyserver/pkg/server/mcptools"
	"github.com/rayhistory/historyserver/pkg/web/browser"
	"github.com/rayhistory/historyserver/pkg/web/writer"
)

const (
	// maxCalls is how many calls are answered at once: some read lists of running clusters, which take 50 MB at most.
	maxCalls = 16
	// callTurn is how long a call may take while others wait, and callWait how long one waits.
	callTurn = time.Minute
	callWait = callTurn + 10*time.Second
	// maxMessage is the bytes of a call, which are in memory while it waits.
	maxMessage = 64 << 10
)

// Handler returns the handler of assistants' requests over HTTP. Callers take turns. Nothing is kept between requests,
// so any replica can answer each. The tools send their requests to router, in the name of the assistant's user. The
// handler returns an error only if it has written nothing.
func Handler(version string, router func(http.ResponseWriter, *http.Request), log logrus.FieldLogger,
) func(http.ResponseWriter, *http.Request) error {
	calls := turns.New(maxCalls, callTurn)
	return func(w http.ResponseWriter, r *http.Request) error {
		// The message is read before the call takes a slot, because its client may be slow.
		message, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
		if err != nil {
			http.Error(w, "cannot read the message: "+err.Error(), http.StatusBadRequest)
			return nil
		}
		working, done, err := calls.Take(r.Context(), access.CallerOf(r), callWait)
		if err != nil {
			return err
		}
		defer done()
		if isBatch(message) {
			http.Error(w, "batches are not supported: send one message at a time", http.StatusBadRequest)
			return nil
		}
		r.Body = io.NopCloser(bytes.NewReader(message))
		// When the turn ends, so do the tools' requests; the answer goes on, and has their error.
		tools := mcptools.New(version, client.New(rootOf(r), innerTransport{router, r.WithContext(working), log}))
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true,
			DisableLocalhostProtection: true, // the server's own rules about hosts and origins were applied before
		}).ServeHTTP(w, r)
		return nil
	}
}

// isBatch says whether a body is a list of messages, which the protocol allowed until 2025-06-18. All calls of a list
// would run at once, and their answers would be in memory until the last one: ten thousand in one request.
func isBatch(body []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) }

// rootOf is the address of the server's root, as the client knows it.
func rootOf(r *http.Request) *url.URL {
	root := &url.URL{Scheme: "http", Host: r.Host, Path: "/"}
	if browser.ByHTTPS(r) {
		root.Scheme = "https"
	}
	return root
}

// innerTransport is the http.RoundTripper of the tools: it calls the server's own router instead of opening a
// connection. The tools' requests have the caller of the assistant's request, and whether it is a browser, which is not
// shown secrets.
type innerTransport struct {
	dispatch func(http.ResponseWriter, *http.Request)
	outer    *http.Request // the assistant's
	log      logrus.FieldLogger
}

// Ends of answers that are not complete.
var (
	errPanicked = errors.New("the history server failed to answer; its log has the details")
	errCutOff   = errors.New("the answer ended early")
)

// RoundTrip returns the response as soon as its status is known; its body is read while the router writes it. The
// router is told to stop when the tool's request ends, when the assistant's request ends, or when the body is closed.
func (t innerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	outer := t.outer.Context()
	ctx, cancel := context.WithCancel(outer)
	stopFollowing := context.AfterFunc(r.Context(), cancel)
	out, in := io.Pipe()
	w := &pipedAnswer{header: make(http.Header), in: in, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer stopFollowing()
		defer func() {
			switch cause := recover(); cause {
			case nil:
			case http.ErrAbortHandler: // the handler has logged why
				w.end(errCutOff)
			default:
				t.log.WithField("path", r.URL.Path).Errorf("panic while answering an assistant: %v\n%s", cause,
					debug.Stack())
				w.end(errPanicked)
			}
		}()
		recorded, _ := writer.Record(ctx, w, http.NoBody)
		inner := r.Clone(recorded)
		inner.RemoteAddr = t.outer.RemoteAddr // by which callers without a name take turns
		dashboard.CopyBrowser(inner, t.outer)
		t.dispatch(w, inner)
		w.end(nil)
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = out.Close() // never fails
		return nil, context.Cause(r.Context())
	case <-outer.Done():
		_ = out.Close()
		return nil, context.Cause(outer)
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header,
		Body: body{out, cancel}, Request: r}, nil
}

// body is the body of a response. Closing it cancels the work for what nobody has read.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// pipedAnswer is an http.ResponseWriter that writes the body into a pipe.
type pipedAnswer struct {
	header http.Header
	status int
	in     *io.PipeWriter
	begun  chan struct{} // closed when the status is known and the header is complete
}

func (w *pipedAnswer) Header() http.Header { return w.header }

// WriteHeader keeps the first final status, and wakes RoundTrip. A status below 200 announces another one.
func (w *pipedAnswer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		close(w.begun)
	}
}

func (w *pipedAnswer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.in.Write(p)
}

// end ends the answer, whose reader gets the error, or io.EOF if it is nil. If nothing was written yet, the status is
// 500 with an error and 200 without.
func (w *pipedAnswer) end(err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)        // without effect if there is a status
	_ = w.in.CloseWithError(err) // never fails
}
