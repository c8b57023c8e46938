package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/layout"
)

// sender answers requests without a network.
type sender func(*http.Request) (*http.Response, error)

func (s sender) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

func answerOf(status int, headers, body string) *http.Response {
	answer := &http.Response{StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for _, header := range strings.Split(headers, "\n") {
		name, value, _ := strings.Cut(header, ": ")
		answer.Header.Set(name, value)
	}
	return answer
}

// TestRefusals: whatever a server, a proxy or something else answers, the error says what it was and what to do.
func TestRefusals(t *testing.T) {
	const json, page = "Content-Type: application/json", "Content-Type: text/html; charset=utf-8"
	for name, test := range map[string]struct {
		status        int
		headers, body string
		want          []string
	}{
		"no such job": {404, json, `{"result":false,"msg":"It has no job a. List its jobs."}`,
			[]string{"404 Not Found: It has no job a. List its jobs.$"}},
		"no such address": {405, json, `{"result":false,"msg":"POST is not possible."}`,
			[]string{"405 Method Not Allowed: POST is not possible.$"}},
		"not signed in": {401, json, `{"result":false,"msg":"not signed in: wrong token"}`,
			[]string{"401 Unauthorized", "wrong token", "historyserver login --server https://h.example.com`"}},
		"not allowed": {403, json, `{"msg":"Not allowed: namespace a. Ask your administrator."}`,
			[]string{"403 Forbidden", "Ask your administrator"}},
		"sign-in page": {302, "Location: https://login.example.com/authorize?state=secret", "",
			[]string{"redirects to https://login.example.com/authorize,", "would get your token", "behind its proxy"}},
		"same host": {301, "Location: /elsewhere", "", []string{"redirects to https://h.example.com/elsewhere"}},
		"nowhere":   {307, "", "", []string{"redirects to nowhere"}},
		"page, 200": {200, page, "<html>Sign in", []string{"answers with a page", "is it a history server?"}},
		"page, 401": {401, page, "<html><h1>Sign in", []string{"401 Unauthorized", "historyserver login"}},
		"another server": {404, "Content-Type: text/plain", "404 page not found",
			[]string{"404 Not Found", "page not found", "is it a history server, and as new"}},
		"another server's JSON": {404, json, `{"status":404,"error":"Not Found"}`,
			[]string{"404 Not Found", "is it a history server, and as new"}},
		"gone": {410, json, `{"msg":"No such session is stored: a/b/c."}`,
			[]string{"410 Gone", "No such session is stored"}},
		"a query that is none": {400, json, `{"status":"error","errorType":"bad_data","error":"unclosed left bracket"}`,
			[]string{"400 Bad Request: unclosed left bracket$"}},
		"bad gateway": {502, "", "", []string{"502 Bad Gateway", "says nothing more"}},
		"long":        {500, json, `{"msg":"` + strings.Repeat("x", 10_000) + `"}`, []string{"500 Internal"}},
		"not JSON":    {200, "Content-Type: text/plain", "hello", []string{"cannot be read", "is it a history server"}},
		"no list":     {200, json, `{"result":true}`, []string{"no list"}},
		"cut off":     {200, json, `[{"name":"lab"},`, []string{"cannot be read"}},
	} {
		c := New(&url.URL{Scheme: "https", Host: "h.example.com", Path: "/", User: url.UserPassword("ann", "hush")},
			sender(func(r *http.Request) (*http.Response, error) {
				answer := answerOf(test.status, test.headers, test.body)
				answer.Request = r
				return answer, nil
			}))
		_, err := c.Sessions(t.Context(), nil)
		if err == nil || len(err.Error()) > 3000 || strings.Contains(err.Error(), "hush") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range test.want {
			// A $ is the text's end.
			says.True(t, strings.Contains(strings.ReplaceAll(err.Error(), "ann:xxxxx@", "")+"$", want),
				"%s lacks %q: %v", name, want, err)
		}
	}
}

// TestUnreachable: a server that does not answer, or not as its address says.
func TestUnreachable(t *testing.T) {
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	tls.Config.ErrorLog = nil
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for address, want := range map[string]string{
		tls.URL: "SSL_CERT_FILE",
		strings.Replace(plain.URL, "http:", "https:", 1): "does not speak HTTPS",
		gone.URL:                "check the address",
		"http://h.invalid:8080": "check the address",
		gone.URL + "/homepage/": gone.URL + ": ", // as a browser shows it
	} {
		base, err := ParseBase(address)
		must.OK(t, err)
		_, err = New(base, &http.Transport{}).Sessions(t.Context(), nil)
		says.Error(t, err, want, "%s: %v, want %s", address, err, want)
	}
	slow := New(&url.URL{Scheme: "http", Host: "h", Path: "/"},
		sender(func(*http.Request) (*http.Response, error) { return nil, timeout{} }))
	says.Error(t, says.Err(slow.Sessions(t.Context(), nil)), "did not answer in time")
	for _, address := range []string{"", "h.example.com", "ftp://h", "https://", "http://:80", "http://h/?a=b",
		"http://h/#a", "http://ann:hush@h:port", "https:///homepage"} {
		if _, err := ParseBase(address); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, want := range map[string]string{"http://homepage/": "http://homepage/",
		"http://homepage/homepage": "http://homepage/", "http://h/rays//homepage": "http://h/rays/"} {
		if base, err := ParseBase(address); err != nil || base.String() != want {
			t.Errorf("%q: %v, %v", address, base, err)
		}
	}
}

type timeout struct{}

func (timeout) Error() string   { return "timeout awaiting response headers" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// TestWarned: what is missing in an answer is told to whoever wants to hear it.
func TestWarned(t *testing.T) {
	c := New(&url.URL{Scheme: "http", Host: "h", Path: "/"}, sender(func(*http.Request) (*http.Response, error) {
		return answerOf(200, "Warning: 199 - \"sessions are missing\"\nContent-Type: application/json", "[]"), nil
	}))
	must.Get(c.Sessions(t.Context(), nil))(t)
	said := ""
	c.OnWarning = func(warning string) { said = warning }
	if must.Get(c.Lookup(t.Context())(catalog.Filter{}))(t); said != "sessions are missing" {
		t.Errorf("told is %q", said)
	}
}

// TestPatience: a session that is being loaded is asked for again, not for ever, and only by who is patient.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, waits := 0, 2
		c := New(&url.URL{Scheme: "http", Host: "h", Path: "/"}, sender(func(*http.Request) (*http.Response, error) {
			if asked++; asked <= waits {
				return answerOf(503, "Retry-After: 5\nContent-Type: application/json", `{"msg":"Loading, 42 %."}`), nil
			}
			return answerOf(200, "Content-Type: application/json", "[]"), nil
		}))
		var refused *Error
		_, err := c.Sessions(t.Context(), nil)
		says.True(t, errors.As(err, &refused) && asked == 1, "without patience: %v after %d requests", err, asked)
		said := ""
		c.Patient, c.OnWait = true, func(why string) { said = why }
		began := time.Now()
		_, err = c.Sessions(t.Context(), nil)
		says.True(t, err == nil && asked == 3 && time.Since(began) == 5*time.Second && strings.Contains(said, "42 %"),
			"%v after %d requests and %v: %s", err, asked, time.Since(began), said)
		waits = 1 << 30
		began = time.Now()
		if _, err := c.Sessions(t.Context(), nil); !errors.As(err, &refused) || time.Since(began) > longestWait {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// TestJobs: a job is found by its names, whatever else the list of a running cluster has, which is read job by job.
func TestJobs(t *testing.T) {
	ask := func(list string) *Client {
		return New(must.Get(ParseBase("https://h.example.com"))(t), sender(func(*http.Request) (*http.Response, error) {
			return answerOf(200, "Content-Type: application/json", list), nil
		}))
	}
	const two = `[{"submission_id":"b-2","entrypoint":"python b.py","start_time":2},
		{"job_id":"01000000","entrypoint":"python a.py","start_time":1,"runtime_env":{"x":[1]}},
		{"submission_id":"b-1","entrypoint":"python b.py","start_time":1}]`
	for name, want := range map[string]string{"01000000": "01000000", "python a.py": "01000000", "python b.py": "b-2",
		"b": "b-2", "b-1": "b-1"} {
		job, err := ask(two).Job(t.Context(), "p/", name)
		says.True(t, err == nil && job.Name() == want, "%s: %+v, %v", name, job, err)
	}
	earlier := New(must.Get(ParseBase("https://h.example.com"))(t), sender(func(r *http.Request) (*http.Response, error) {
		switch r.URL.Path {
		case "/p/api/jobs/":
			return answerOf(200, "Content-Type: application/json", `[{"job_id":"03000000","submission_id":"steps"}]`), nil
		case "/p/api/jobs/02000000":
			return answerOf(200, "Content-Type: application/json", `{"job_id":"02000000","submission_id":"steps"}`), nil
		}
		return answerOf(404, "", ""), nil
	}))
	if job, err := earlier.Job(t.Context(), "p/", "02000000"); err != nil || job.Name() != "steps" {
		t.Errorf("an earlier driver of a submission: %+v, %v", job, err)
	}
	says.Error(t, says.Err(earlier.Job(t.Context(), "p/", "01000000")), "steps", "no driver of a submission")
	for list, want := range map[string]string{
		"[" + strings.Repeat("{},", maxJobs) + "{}]":                                     "too long",
		`[{"entrypoint":"` + strings.Repeat("x", maxRow+1<<20) + `"}]`:                   "too long",
		"[" + strings.Repeat(`{"job_id":"`+strings.Repeat("x", 1<<20)+`"},`, 17) + "{}]": "IDs of its jobs",
		`{"job_id":"01000000"}`: "no list",
	} {
		says.Error(t, says.Err(ask(list).Job(t.Context(), "p/", "01000000")), want, "%.50s", list)
	}
}

// TestEndlessAnswers: an answer takes bounded memory, whatever it repeats, and however well it was compressed.
func TestEndlessAnswers(t *testing.T) {
	endless := func(begin, again string) *Client {
		return New(&url.URL{Scheme: "https", Host: "h.example.com", Path: "/"},
			sender(func(*http.Request) (*http.Response, error) {
				answer := answerOf(200, "Content-Type: application/json", "")
				answer.Body = io.NopCloser(io.MultiReader(strings.NewReader(begin), &repeated{text: []byte(again)}))
				return answer, nil
			}))
	}
	var rows struct{ Rows []struct{ Texts [16]string } }
	for name, ask := range map[string]func() error{
		"a text in a list": func() error {
			_, err := endless(`[{"name":"`, strings.Repeat("x", 1<<16)).Sessions(t.Context(), nil)
			return err
		},
		"a text": func() error {
			return endless(`{"data":{"name":"`, strings.Repeat("x", 1<<16)).Data(t.Context(), "a", nil, &rows)
		},
		"values": func() error {
			return endless(`{"data":{"rows":[`, strings.Repeat("{},", 1<<14)).Data(t.Context(), "a", nil, &rows)
		},
	} {
		var err error
		bytes := storetest.Allocated(func() { err = ask() })
		says.True(t, err != nil && strings.Contains(err.Error(), "too l") && bytes <= 6*maxAnswer,
			"%s: %v, with %d bytes", name, err, bytes)
	}
}

// repeated is a text without an end.
type repeated struct {
	text []byte
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

// TestFind: a name is the same session of a server as of the store, however much of it is given. What is named in full
// and not listed is left to the server.
func TestFind(t *testing.T) {
	const latest, before = "team-a/nightly-x2/session_2", "team-a/nightly-x1/session_1"
	c := New(must.Get(ParseBase("https://h.example.com"))(t), sender(func(r *http.Request) (*http.Response, error) {
		var rows []string
		for _, of := range []string{latest, before} {
			name := strings.Split(of, "/")
			if query := r.URL.Query(); query.Get("owner") == "nightly" || query.Get("cluster") == name[1] {
				rows = append(rows, fmt.Sprintf(`{"namespace":%q,"name":%q,"session":%q}`, name[0], name[1], name[2]))
			}
		}
		return answerOf(200, "Content-Type: application/json", "["+strings.Join(rows, ",")+"]"), nil
	}))
	for name, want := range map[string]string{
		"nightly": latest, "team-a/nightly": latest, "team-a/nightly/latest": latest, "team-a/nightly/live": latest,
		"team-a/nightly/session_1": before, "team-a/nightly-x1/live": before, before: before,
		"team-b/nightly/session_1": "team-b/nightly/session_1", "team-b/new/latest": "team-b/new/latest",
	} {
		ref, err := c.Find(t.Context(), name)
		says.True(t, err == nil && ref.String() == want, "%s is %s, %v, want %s", name, ref, err, want)
	}
	for _, name := range []string{"new", "team-b/nightly", "a//b"} {
		if ref, err := c.Find(t.Context(), name); err == nil {
			t.Errorf("%s is %s", name, ref)
		}
	}
}

// TestRowsHaveTheWholeEntry: what a server knows of a session in its list, its commands know, too.
func TestRowsHaveTheWholeEntry(t *testing.T) {
	var ended catalog.Entry
	must.Fill(t, &ended)
	running := ended
	ended.Running, running.End = false, time.Time{}
	for _, e := range []catalog.Entry{ended, running} {
		e.Ref = layout.Session{Namespace: "team-a", Cluster: "lab", Name: "session_1"}
		row := RowOf(e, time.Now())
		says.Equal(t, row.toSession().Entry, e, "an entry of /clusters: complete RowOf and toSession")
	}
}
