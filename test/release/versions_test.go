package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/play"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
)

// earlier stands for a released version until there is one: a commit from before the index's format of today, the runs
// of a load, the findings that are kept, and most names of today.
const earlier = "501c537f79c762944c088b37440ca3dcc1c4a76b"

// TestVersions runs the programs of two versions over each other's stores and spools: what a server answers does not
// depend on which version's collector stored the session, nor on which collector's spool another one went on with, nor
// on which version's server has written the index.
func TestVersions(t *testing.T) {
	t.Chdir("../..")
	if exec.Command("git", "cat-file", "-e", earlier).Run() != nil {
		t.Skip("the clone has no history to build an earlier version from")
	}
	bin := t.TempDir()
	for name, source := range map[string]string{"earlier": checkedOut(t), "current": "."} {
		// As the images are built, whose packages Go has cached.
		output(t, "env", "CGO_ENABLED=0", "go", "-C", source, "build", "-trimpath", "-tags",
			"disable_grpc_modules,grpcnotrace", "-o", filepath.Join(bin, name)+"/", "./cmd/...")
	}
	stores := map[string]string{}
	var collectors errgroup.Group
	for _, c := range []struct{ name, collector, successor string }{
		{"by the current version", "current", ""},
		{"by the earlier version", "earlier", ""},
		{"by the earlier version, then the current one", "earlier", "current"},
		{"by the current version, then the earlier one", "current", "earlier"},
	} {
		played := play.Recording{Name: recording.Default, Binary: filepath.Join(bin, c.collector, "collector"),
			Work: t.TempDir(), Data: t.TempDir(), Say: t.Logf}
		if c.successor != "" {
			played.Successor = filepath.Join(bin, c.successor, "collector")
		}
		collectors.Go(func() error {
			if err := errors.Join(played.Collect(t.Context()),
				play.StoredAt(played.Data, time.Now().Add(-2*time.Hour))); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			return nil
		})
		stores[c.name] = played.Data
	}
	must.OK(t, collectors.Wait())
	first := map[string]map[string]any{} // by version
	for store, data := range stores {
		// Each meets the index of the other, and then makes its own.
		for _, step := range []struct{ version, index string }{
			{"earlier", ""}, {"earlier", "earlier"}, {"current", ""}, {"current", "current"}, {"earlier", ""},
		} {
			server := filepath.Join(bin, step.version, "historyserver")
			if step.index != "" {
				output(t, server, "index", "--all", "--force", "--local-dir", data)
			}
			got := answers(t, server, data)
			if first[step.version] == nil {
				first[step.version] = got
				continue
			}
			if len(got) != len(first[step.version]) {
				t.Errorf("stored %s, answered by the %s version: %d answers, want %d", store, step.version, len(got),
					len(first[step.version]))
			}
			for path, want := range first[step.version] {
				if !reflect.DeepEqual(got[path], want) {
					t.Errorf("stored %s, answered by the %s version with an index by %q: %s\n%s\nwant\n%s", store,
						step.version, step.index, path, cut(got[path]), cut(want))
				}
			}
		}
	}
}

// checkedOut is a folder with the earlier version's files.
func checkedOut(t *testing.T) string {
	folder := t.TempDir()
	output(t, "sh", "-c", `git archive "$0" | tar -x -C "$1"`, earlier, folder)
	return folder
}

// cut is the beginning of a JSON value, for a message.
func cut(value any) string {
	text, _ := json.Marshal(value)
	return fmt.Sprintf("%.1000s", text)
}

// answers asks a server of a version for what the recorded session's dashboard and commands ask.
func answers(t *testing.T, server, data string) map[string]any {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freeport.Port(t))
	log := filepath.Join(t.TempDir(), "server.log")
	process := must.Get(play.Start(log, server, "--listen", address, "--storage-backend", "local", "--local-dir", data,
		"--dashboard-dir", "", "--index-cache-dir", t.TempDir()))(t)
	defer func() {
		if err := process.Stop(time.Minute); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	base := "http://" + address
	must.OK(t, process.WaitReady(ctx, base+"/readyz", time.Minute))
	base += fmt.Sprintf("/namespaces/%s/clusters/%s/sessions/latest/", recording.Namespace, recording.Cluster)
	const all = "?detail=true&limit=10000"
	paths := []string{"api/v0/tasks" + all, "api/v0/actors" + all, "api/v0/jobs" + all, "api/v0/nodes" + all,
		"api/v0/workers" + all, "api/v0/placement_groups" + all, "api/v0/tasks/summarize", "api/jobs/",
		"nodes?view=summary",
		"logical/actors", "api/serve/applications/", "events", "api/cluster_status"}
	got := map[string]any{}
	for _, path := range paths {
		got[path] = ask(t, ctx, base+path)
	}
	logs := 0
	for _, node := range nodeIDs(got["api/v0/nodes"+all]) {
		for _, file := range logFiles(ask(t, ctx, base+"api/v0/logs?node_id="+node)) {
			path := "api/v0/logs/file?lines=-1&node_id=" + node + "&filename=" + url.QueryEscape(file)
			// The earlier version lists no log without bytes that a current collector stored. The answer to such a log
			// is only the 1 that Ray puts before a log's bytes.
			if text, ok := ask(t, ctx, base+path).(string); ok && text != "" {
				got[path] = text
				logs++
			}
		}
	}
	if logs < 100 {
		t.Errorf("only %d logs", logs)
	}
	return got
}

// logFiles are the files in an answer to api/v0/logs.
func logFiles(answer any) (files []string) {
	text, _ := json.Marshal(answer)
	var logs struct {
		Data struct{ Result map[string][]string }
	}
	_ = json.Unmarshal(text, &logs) // how many there are is checked
	for _, names := range logs.Data.Result {
		for _, name := range names {
			if !strings.HasSuffix(name, "/") {
				files = append(files, name)
			}
		}
	}
	return files
}

// nodeIDs are the IDs in an answer to api/v0/nodes.
func nodeIDs(answer any) (ids []string) {
	text, _ := json.Marshal(answer)
	var nodes struct {
		Data struct {
			Result struct {
				Result []struct {
					NodeID string `json:"node_id"`
				}
			}
		}
	}
	_ = json.Unmarshal(text, &nodes) // how many logs they have is checked
	for _, n := range nodes.Data.Result.Result {
		ids = append(ids, n.NodeID)
	}
	return ids
}

// ask is an answer: its JSON, or its text, and the status unless it is 200.
func ask(t *testing.T, ctx context.Context, address string) any {
	t.Helper()
	for {
		request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, address, nil))(t)
		response := must.Get(http.DefaultClient.Do(request))(t)
		body, err := io.ReadAll(response.Body)
		must.OK(t, errors.Join(err, response.Body.Close()))
		if response.StatusCode == http.StatusServiceUnavailable {
			time.Sleep(100 * time.Millisecond) // it is being loaded
			continue
		}
		var value any
		if json.Unmarshal(body, &value) != nil {
			value = string(body)
		}
		if response.StatusCode != http.StatusOK {
			value = fmt.Sprintf("%s: %v", response.Status, value)
		}
		return value
	}
}
