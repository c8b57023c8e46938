package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/cmd/historyserver/commands"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// bucket is a local store whose objects get the age that a test says.
type bucket struct {
	t   *testing.T
	dir string
	now time.Time
}

func (b *bucket) put(key, body string, age time.Duration) {
	b.t.Helper()
	file := filepath.Join(b.dir, filepath.FromSlash(key))
	must.OK(b.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(b.t, os.WriteFile(file, []byte(body), 0o600))
	at := b.now.Add(-age)
	must.OK(b.t, os.Chtimes(file, at, at))
}

// session stores a session that began at an age, with a job of a status and a last write.
func (b *bucket) session(cluster, job string, began, last time.Duration) layout.Session {
	ref := layout.Session{Namespace: "default", Cluster: cluster,
		Name: b.now.Add(-began).UTC().Format("session_2006-01-02_15-04-05_000000_1")}
	b.put(layout.MarkerKey("log", ref), "", began)
	b.put(layout.MetadataKey("log", ref, layout.Start),
		fmt.Sprintf(`{"start":%q}`, b.now.Add(-began).UTC().Format(time.RFC3339)), began)
	stream := layout.LogKey("log", ref, rayid.Node{1}, "raylet.out")
	b.put(stream, "a line\n", began-time.Second)
	b.put(layout.ChunkKey(stream, 7, layout.Plain), "a line\n", last)
	if job != "" {
		ended := "null"
		if job != "RUNNING" {
			ended = fmt.Sprint(b.now.Add(-last).UnixMilli())
		}
		b.put(layout.SnapshotKey("log", ref, "/api/jobs/"),
			fmt.Sprintf(`[{"type":"SUBMISSION","job_id":null,"submission_id":"ci","status":%q,`+
				`"entrypoint":"python train.py","start_time":%d,"end_time":%s,"metadata":{},"runtime_env":{}}]`, job,
				b.now.Add(-began).UnixMilli(), ended), last)
	}
	return ref
}

func (b *bucket) end(ref layout.Session, age time.Duration) {
	b.put(layout.MetadataKey("log", ref, layout.End),
		fmt.Sprintf(`{"end":%q,"nodes":1}`, b.now.Add(-age).UTC().Format(time.RFC3339Nano)), age)
}

// answer is what one of those that are asked says about a session.
type answer struct{ State, Outcome string }

// TestEveryAnswerIsTheSame: commands, pages and assistants say the same of a session.
func TestEveryAnswerIsTheSame(t *testing.T) {
	b := &bucket{t, t.TempDir(), time.Now()}
	const hour = time.Hour
	want := make(map[layout.Session]answer)
	want[b.session("runs", "RUNNING", hour, 3*time.Second)] = answer{"running", "running"}
	want[b.session("runs-done", "SUCCEEDED", hour, 3*time.Second)] = answer{"running", "running"}
	want[b.session("runs-young", "RUNNING", 9*time.Minute, time.Minute)] = answer{"running", "running"}
	now := b.session("ended-now", "SUCCEEDED", 5*time.Minute, time.Second)
	b.end(now, time.Second)
	want[now] = answer{"ended", "succeeded"}
	open := b.session("ended-open", "RUNNING", 2*hour, time.Second)
	b.end(open, time.Second)
	want[open] = answer{"ended", "unfinished"}
	long := b.session("ended-long", "SUCCEEDED", 2*hour, hour)
	b.end(long, hour)
	want[long] = answer{"ended", "succeeded"}
	want[b.session("quiet", "SUCCEEDED", 2*hour, 11*time.Minute)] = answer{"ended", "succeeded"}
	want[b.session("quiet-open", "RUNNING", 2*hour, 11*time.Minute)] = answer{"ended", "unfinished"}
	further := b.session("continued", "RUNNING", hour, 20*time.Minute)
	b.end(further, 20*time.Minute)
	b.put(layout.LogKey("log", further, rayid.Node{2}, "raylet.out"), "another head\n", time.Second)
	want[further] = answer{"running", "running"}
	nothing := b.session("nothing", "", 2*hour, hour)
	b.end(nothing, hour)
	want[nothing] = answer{"ended", "unknown"}
	future := b.session("ahead", "SUCCEEDED", 2*hour, hour)
	b.put(layout.MetadataKey("log", future, layout.End), `{"end":"2263-01-01T00:00:00Z","nodes":3}`, hour)
	want[future] = answer{"ended", "succeeded"}
	// a folder where Ray has a link
	alias := layout.Session{Namespace: "default", Cluster: "runs", Name: "session_latest"}
	b.put(layout.MarkerKey("log", alias), "", 0)

	base, assistant := b.serve()
	for asked, said := range map[string]func(ref layout.Session) answer{
		"why": func(ref layout.Session) answer {
			var report struct{ Outcome string }
			b.command(&report, "why", ref.String())
			return answer{stateOf(report.Outcome == "running"), report.Outcome}
		},
		"why of the latest": func(ref layout.Session) answer {
			var report struct{ Outcome string }
			b.command(&report, "why", ref.Namespace+"/"+ref.Cluster)
			return answer{stateOf(report.Outcome == "running"), report.Outcome}
		},
		"ls": func(ref layout.Session) answer {
			var rows []struct{ Running bool }
			b.command(&rows, "ls", ref.String())
			return answer{State: stateOf(rows[0].Running)}
		},
		"show": func(ref layout.Session) answer {
			var shown struct{ Running bool }
			b.command(&shown, "show", ref.String())
			return answer{State: stateOf(shown.Running)}
		},
		"compare": func(ref layout.Session) answer {
			var report struct{ Session struct{ Outcome string } }
			with := long
			if ref == long {
				with = now
			}
			b.command(&report, "compare", ref.String(), with.String())
			return answer{stateOf(report.Session.Outcome == "running"), report.Session.Outcome}
		},
		"/clusters": func(ref layout.Session) answer {
			var rows []struct{ Name, Session, State string }
			b.get(base+"/clusters", &rows)
			for _, row := range rows {
				if row.Name == ref.Cluster && row.Session == ref.Name {
					return answer{State: row.State}
				}
			}
			return answer{}
		},
		"findings": func(ref layout.Session) answer {
			var report struct{ Data struct{ Outcome string } }
			b.get(fmt.Sprintf("%s/namespaces/%s/clusters/%s/sessions/%s/api/history/findings", base, ref.Namespace,
				ref.Cluster, ref.Name), &report)
			return answer{stateOf(report.Data.Outcome == "running"), report.Data.Outcome}
		},
		"assistants": func(ref layout.Session) answer {
			text, isError := call(t, assistant, "why", map[string]any{"session": ref.String()})
			must.True(t, !isError, "%s", text)
			_, text, _ = strings.Cut(text, `"outcome":"`)
			outcome, _, _ := strings.Cut(text, `"`)
			return answer{stateOf(outcome == "running"), outcome}
		},
	} {
		for ref, want := range want {
			got := said(ref)
			if got.Outcome == "" {
				got.Outcome = want.Outcome // it tells only the state
			}
			says.Equal(t, got, want, "%s: %s says", ref.Cluster, asked)
		}
	}
	for ref, want := range want {
		_, err := b.run("rm", "--dry-run", ref.String())
		says.True(t, (err == nil) == (want.State == "ended"), "%s: rm: %v", ref.Cluster, err)
	}
	var rows []struct{ Session string }
	if b.get(base+"/clusters", &rows); len(rows) != len(want) {
		t.Errorf("%d sessions are listed, want %d: %v", len(rows), len(want), rows)
	}
}

func stateOf(running bool) string {
	if running {
		return "running"
	}
	return "ended"
}

// run runs a command over the bucket.
func (b *bucket) run(args ...string) (string, error) {
	b.t.Helper()
	var out bytes.Buffer
	cmd := &cobra.Command{SilenceUsage: true, SilenceErrors: true}
	commands.AddTo(cmd)
	cmd.SetArgs(append(args, "-o", "json", "--local-dir="+b.dir))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(b.t.Context())
	return out.String(), err
}

func (b *bucket) command(into any, args ...string) {
	b.t.Helper()
	out, err := b.run(args...)
	if err == nil {
		err = json.Unmarshal([]byte(out), into)
	}
	must.OK(b.t, err, "%q: %v: %.500s", args, err, out)
}

func (b *bucket) get(address string, into any) {
	b.t.Helper()
	status, body, err := patient(address)
	must.OK(b.t, err)
	must.OK(b.t, json.Unmarshal([]byte(body), into), "%s: %d", address, status)
}

// serve runs a server over the bucket, and waits until it has read all sessions.
func (b *bucket) serve() (string, *mcp.ClientSession) {
	t := b.t
	t.Helper()
	base := serving(t, b.dir, "--index-cache-dir=")
	must.Happen(t, "that all is described", func() bool {
		var rows []struct{ Objects int }
		b.get(base+"/clusters", &rows)
		described := len(rows) > 0
		for _, row := range rows {
			described = described && row.Objects > 0
		}
		return described
	})
	return base, assistantOf(t, base)
}
