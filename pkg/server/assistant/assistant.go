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

// Handler answers assistants over HTTP, callers in turns. Nothing is kept between requests, so any replica answers
// each. Tools ask router, for the caller whom the request's context knows. An error is returned only if nothing was
// written.
func Handler(version string, router func(http.ResponseWriter, *http.Request), log logrus.FieldLogger,
) func(http.ResponseWriter, *http.Request) error {
	calls := turns.New(maxCalls, callTurn)
	return func(w http.ResponseWriter, r *http.Request) error {
		// before it takes a slot: its client may be slow
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
		// Its tools end with the turn, and not the answer, which says so.
		tools := mcptools.New(version, client.New(rootOf(r), asker{router, r.WithContext(working), log}))
		mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{
			Stateless: true, JSONResponse: true,
			DisableLocalhostProtection: true, // the server's own rules about hosts and origins were applied before
		}).ServeHTTP(w, r)
		return nil
	}
}

// isBatch says whether a body holds a list of messages, which the protocol had until 2025-06-18. Its calls would run
// all at once and their answers be kept until the last one: ten thousand in one request.
func isBatch(body []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("[")) }

// rootOf is the address of the server's root, as the client knows it.
func rootOf(r *http.Request) *url.URL {
	root := &url.URL{Scheme: "http", Host: r.Host, Path: "/"}
	if browser.ByHTTPS(r) {
		root.Scheme = "https"
	}
	return root
}

// asker answers requests that tools send, for the caller whom the assistant's request knows by its context, and as it
// would be answered itself: browsers are not shown secrets.
type asker struct {
	dispatch func(http.ResponseWriter, *http.Request)
	asked    *http.Request
	log      logrus.FieldLogger
}

// Ends of answers that are not complete.
var (
	errPanicked = errors.New("the history server failed to answer; its log has the details")
	errCutOff   = errors.New("the answer ended early")
)

// RoundTrip returns an answer while it is being written. The work ends with the tool's request, with the assistant's,
// and when the body is closed.
func (a asker) RoundTrip(r *http.Request) (*http.Response, error) {
	caller := a.asked.Context()
	ctx, cancel := context.WithCancel(caller)
	stopped := context.AfterFunc(r.Context(), cancel)
	out, in := io.Pipe()
	w := &pipedAnswer{header: make(http.Header), in: in, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer stopped()
		defer func() {
			switch cause := recover(); cause {
			case nil:
			case http.ErrAbortHandler: // the handler has logged why
				w.fail(errCutOff)
			default:
				a.log.WithField("path", r.URL.Path).Errorf("panic while answering an assistant: %v\n%s", cause,
					debug.Stack())
				w.fail(errPanicked)
			}
		}()
		recorded, _ := writer.Record(ctx, w, http.NoBody)
		sent := r.Clone(recorded)
		sent.RemoteAddr = a.asked.RemoteAddr // callers who are not known by name take turns by it
		dashboard.CopyBrowser(sent, a.asked)
		a.dispatch(w, sent)
		w.fail(nil)
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = out.Close() // never fails
		return nil, context.Cause(r.Context())
	case <-caller.Done():
		_ = out.Close()
		return nil, context.Cause(caller)
	}
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Header: w.header,
		Body: body{out, cancel}, Request: r}, nil
}

// body cancels the work for what nobody reads.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b body) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// pipedAnswer writes an answer into a pipe.
type pipedAnswer struct {
	header http.Header
	status int
	in     *io.PipeWriter
	begun  chan struct{}
}

func (w *pipedAnswer) Header() http.Header { return w.header }

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

// fail ends the answer; a nil error is its regular end.
func (w *pipedAnswer) fail(err error) {
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
	}
	w.WriteHeader(http.StatusOK)
	_ = w.in.CloseWithError(err) // never fails
}
