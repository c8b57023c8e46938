package node

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/recording"
)

const (
	session = "session_2026-11-20_23-19-45_581717_22125"
	a       = "11ddada2522c973b78d21316e6e058f54500e29f808a1ee396c6e558"
	b       = "14b1c508611d2008077d0714613cb3f52e6aae4d0f01718a64385287"
	c       = "65976f1a5e43d47c5c38a18d01472badef520e755b01f93df1534b33"
)

func TestNode(t *testing.T) {
	const answer = `{"result":true,"msg":"","data":{"result":{"total":2,"result":[
		{"node_id":"` + a + `","node_ip":"10.0.0.1","state":"ALIVE"},{"node_id":"` + c + `","node_ip":"10.0.0.2","state":"DEAD"},{"node_id":"` + b + `","node_ip":"10.0.0.2","state":"ALIVE"}]}}}`
	dashboard := func(context.Context, string) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(answer)), nil
	}
	down := func(context.Context, string) (io.ReadCloser, error) { return nil, errors.New("connection refused") }
	for name, test := range map[string]struct {
		files []string // in the order they are written
		hook  string
		head  bool
		get   func(context.Context, string) (io.ReadCloser, error)
		ip    string
		want  string
	}{
		"one node":                {files: []string{"metrics_agent_port_" + a, "dashboard_agent_listen_port_" + a}, want: a},
		"other ports only":        {files: []string{"dashboard_agent_listen_port_" + b}, want: b},
		"restarted raylet":        {files: []string{"metrics_agent_port_" + b, "metrics_agent_port_" + a}, want: a},
		"agent over other ports":  {files: []string{"metrics_agent_port_" + a, "runtime_env_agent_port_" + b}, want: a},
		"head of one machine":     {files: []string{"gcs_server_port_" + a, "metrics_agent_port_" + a, "metrics_agent_port_" + b}, head: true, want: a},
		"worker of one machine":   {files: []string{"gcs_server_port_" + a, "metrics_agent_port_" + a, "metrics_agent_port_" + b}, want: b},
		"foreign names":           {files: []string{"metrics_agent_port_../../x", "x_port_12", "metrics_agent_port_" + strings.Repeat("f", 56), "node_ip_address.json"}, want: ""},
		"hook":                    {hook: b + "\n", want: b},
		"damaged hook":            {hook: "nonsense", want: ""},
		"dashboard":               {get: dashboard, ip: "10.0.0.2", want: b},
		"dashboard without it":    {get: dashboard, ip: "10.0.0.3", want: ""},
		"dashboard not reachable": {get: down, ip: "10.0.0.2", want: ""},
		"nothing":                 {want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Finder{Dir: t.TempDir(), Head: test.head, Get: test.get, IP: test.ip}
			if err := os.Mkdir(filepath.Join(f.Dir, session), 0o755); err != nil {
				t.Fatal(err)
			}
			for i, name := range test.files {
				path := filepath.Join(f.Dir, session, filepath.Base(name))
				if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
					t.Fatal(err)
				}
				written := time.Unix(1e9+int64(i), 0)
				if err := os.Chtimes(path, written, written); err != nil {
					t.Fatal(err)
				}
			}
			if test.hook != "" {
				if err := os.WriteFile(filepath.Join(f.Dir, "raylet_node_id"), []byte(test.hook), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := f.Node(t.Context(), session)
			if (err != nil) != (test.want == "") || (err == nil && got.String() != test.want) {
				t.Errorf("got %s, %v, want %q", got, err, test.want)
			}
			if last, ok := f.Last(); ok != (test.want != "") || (ok && last != got) {
				t.Errorf("Last is %s, %t", last, ok)
			}
		})
	}
}

func TestRecordedTrees(t *testing.T) {
	r := recording.Open(t)
	for name, want := range map[string]string{"head": a, "w1": b, "w2": c} {
		f := &Finder{Dir: r.TmpRay(name), Head: name == "head"}
		if got, err := f.Node(t.Context(), session); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestDashboardIsNotAskedOften(t *testing.T) {
	asked := 0
	f := &Finder{Dir: t.TempDir(), IP: "10.0.0.1", Get: func(context.Context, string) (io.ReadCloser, error) {
		asked++
		return nil, errors.New("busy")
	}}
	for range 3 {
		if _, err := f.Node(t.Context(), session); !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
