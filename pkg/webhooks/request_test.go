package webhooks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/catalog"
	"github.com/rayhistory/historyserver/pkg/findings"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/moment"
)

// TestAnswers: what a receiver answers decides, and neither its address nor what it repeats of it is in an error.
func TestAnswers(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hush-ok":
		case "/hush-moved":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/hush-large":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, r.URL.Path, r.Host, r.URL.Query().Get("key"), strings.TrimPrefix(r.URL.Path, "/"),
				strings.Repeat("x", 1<<20))
		case "/hush-cut":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, strings.Repeat("x", maxShown-6), r.URL.Path)
		case "/hush-breaks":
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	c := newHTTPClient(time.Minute)
	for path, want := range map[string]string{"/hush-ok": "", "/hush-moved": "redirects are not followed",
		"/hush-large": "it answered 400", "/hush-cut": "it answered 400", "/hush-breaks": "EOF"} {
		err := send(t.Context(), c, &Receiver{Name: "a", Format: JSON, address: server.URL + path + "?key=hush",
			secret: []byte(secret)}, &Event{})
		if want == "" && err == nil {
			continue
		}
		says.True(t, err != nil && strings.Contains(err.Error(), want) && !strings.Contains(err.Error(), "hush") &&
			!strings.Contains(err.Error(), "127.0.0.1") && len(err.Error()) <= 500, "%s: %v, want %q", path, err, want)
	}
	says.True(t, elsewhere == 0, "a redirect was followed")
	err := send(t.Context(), c, &Receiver{Name: "a", Format: JSON, address: "http://hush-hush.invalid:1/services/x"},
		&Event{})
	says.True(t, err != nil && !strings.Contains(err.Error(), "hush"), "of a host that is not there: %v", err)
}

// TestEvents: texts are bounded, what is too much is counted, and identifiers stay the same.
func TestEvents(t *testing.T) {
	e := catalog.Entry{Ref: layout.Session{Namespace: "prod", Cluster: "lab", Name: "session_1"}}
	report := &findings.Report{Outcome: catalog.Failed, Summary: strings.Repeat("ä", 5000)}
	var failed []moment.Job
	for i := range 50 {
		failed = append(failed, moment.Job{SubmissionID: fmt.Sprint("job", i), Status: "FAILED",
			Message: strings.Repeat("m\n", 4000), Entrypoint: strings.Repeat("e", 4000)})
		report.Findings = append(report.Findings, &findings.Finding{ID: fmt.Sprint(i), Kind: findings.TaskFailed,
			Severity: []string{findings.Error, findings.Info}[i%2], Title: strings.Repeat("t", 4000)})
	}
	r := &Receiver{Events: []string{JobFailed, SessionEnded, Finding}, Namespaces: []string{"pr*"}}
	told, again := forReceiver(r, events(e, report, failed, false, "")),
		forReceiver(r, events(e, report, failed, false, ""))
	says.True(t, len(told) == 2*maxEvents+1 && told[maxEvents-1].More == 30 && told[2*maxEvents-1].More == 5,
		"%d events, %+v", len(told), told)
	ids := map[string]bool{}
	for i, of := range told {
		body, err := json.Marshal(of)
		says.True(t, err == nil && len(body) <= 4000 && of.ID == again[i].ID && !ids[of.ID], "%d bytes, %v: %.300s",
			len(body), err, body)
		ids[of.ID] = true
	}
	for _, tc := range []struct {
		r    Receiver
		want int
	}{
		{Receiver{Events: []string{JobFailed}}, maxEvents},
		{Receiver{Events: []string{JobFailed}, Namespaces: []string{"dev"}}, 0},
		{Receiver{Events: []string{SessionEnded}, Outcomes: []string{"succeeded"}}, 0},
		{Receiver{Events: []string{SessionEnded}, Outcomes: []string{"failed", "stopped"}}, 1},
		{Receiver{Events: []string{Finding}, Kinds: []string{findings.OutOfMemory}}, 0},
	} {
		says.Equal(t, len(forReceiver(&tc.r, events(e, report, failed, false, ""))), tc.want, "%+v: events", tc.r)
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	address, key, short := write("url", "https://hooks.example.com/hush\n"), write("key", secret+"\n"),
		write("short", "hush")
	c, err := Read(write("webhooks.yaml", fmt.Sprintf(`
public_url: https://history.example.com
receivers:
- {name: a, url_file: %q, secret_file: %q}
- {name: b, url: "https://hooks.example.com/x", format: slack, events: [session_ended, finding], namespaces: ["prod-*"], kinds: [out_of_memory]}
`, address, key)))
	must.OK(t, err)
	if a := c.Receivers[0]; a.address != "https://hooks.example.com/hush" || string(a.secret) != secret ||
		a.Format != JSON || !slices.Equal(a.Events, []string{JobFailed}) {
		t.Errorf("%+v", a)
	}
	for text, want := range map[string]string{
		"":                       "0 receivers",
		"receivers: [{name: A}]": "receiver 1: want a name",
		"receivers: [null]":      "receiver 1",
		"receivers: [{name: a}]": "one of url, url_file and url_env",
		"receivers: [{name: a, url: x, url_env: y}]":                           "one of url, url_file and url_env",
		"receivers: [{name: a, url: 'ftp://h/hush'}]":                          "receiver a: url: want an address",
		"receivers: [{name: a, url: 'http://u:hush@h/'}]":                      "without a user",
		"receivers: [{name: a, url: 'http://h/%zzhush'}]":                      "url: want",
		"receivers: [{name: a, url_env: HUSH}]":                                "url_env: want",
		"receivers: [{name: a, url_file: /nowhere}]":                           "url_file: open /nowhere",
		"receivers: [{name: a, url: 'http://h/', secret_file: " + short + "}]": "holds 4 bytes: want at least 16",
		"receivers: [{name: a, url: 'http://h/', secret_file: " + key +
			", format: slack}]": "slack does not check signatures",
		"receivers: [{name: a, url: 'http://h/', format: xml}]":                                   `format: "xml": want json, slack`,
		"receivers: [{name: a, url: 'http://h/', events: [all]}]":                                 "job_failed, session_ended, finding",
		"receivers: [{name: a, url: 'http://h/', kinds: [bad]}]":                                  "actor_died",
		"receivers: [{name: a, url: 'http://h/', kinds: [out_of_memory]}]":                        "add it to events",
		"receivers: [{name: a, url: 'http://h/', outcomes: [failed]}]":                            "add it to events",
		"receivers: [{name: a, url: 'http://h/', namespaces: ['[']}]":                             "namespaces",
		"receivers: [{name: a, url: 'http://h/'}, {name: a, url: 'http://h/'}]":                   "two receivers",
		"receivers: [{name: a, url: 'http://h/', more: 1}]":                                       `unknown name "more"`,
		"receivers: [{name: a, url: 'http://h/'}]\n---\nreceivers: [{name: b, url: 'http://h/'}]": "one document with all receivers",
		"public_url: history\nreceivers: [{name: a, url: 'http://h/'}]":                           "public_url",
	} {
		if _, err := Parse([]byte(text), func(string) string { return "hush" }); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	says.True(t, says.Err(Read(write("large", strings.Repeat("#", 2<<20)))) != nil, "a large file is read")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("public_url: https://h\nreceivers: [{name: a, url: 'https://h/x', events: [finding], kinds: [out_of_memory]}]"))
	f.Add([]byte("receivers: [{name: a, url_env: A, format: slack}, &b {name: b}, *b]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(string(text), "_file") { // reads what it names
			return
		}
		c, err := Parse(text, func(string) string { return "https://h/hush" })
		if err != nil {
			return
		}
		for _, r := range c.Receivers {
			if req, err := http.NewRequest(http.MethodPost, r.address,
				io.NopCloser(strings.NewReader(""))); err != nil || req.URL.Host == "" {
				t.Errorf("%q: %v", r.address, err)
			}
		}
	})
}
