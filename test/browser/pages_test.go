package browser

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// TestPages: no page of a recorded session is blank or ends in an error, in the dashboard of the session's Ray version,
// neither at the session's end nor at a moment of its life. The browser's clock is a month ahead: nothing is shown as
// older than the session, at the moment shown, was.
func TestPages(t *testing.T) {
	s := server(t)
	for name := range builds {
		t.Run(name, func(t *testing.T) {
			base := s.Base(name)
			life := lifeOf(t, base)
			for when, at := range map[string]int64{"end": life.To, "moment": life.From + (life.To-life.From)*2/3} {
				t.Run(when, func(t *testing.T) {
					base := base
					if when == "moment" {
						base = fmt.Sprintf("%s/at/%d", base, at)
					}
					seen := visit(t, job{Base: base, Pages: pages(t, base),
						Ahead: (33 * 24 * time.Hour).Milliseconds()})
					for _, e := range seen.Errors {
						t.Errorf("%s: %s", e.Page, e.Message)
					}
					found := 0
					for _, p := range seen.Pages {
						says.True(t, len(p.Missing) == 0, "%s: no %q", p.Name, p.Missing)
						says.True(t, len(strings.TrimSpace(p.Text)) >= 40, "%s: the page is blank: %q", p.Name, p.Text)
						for text, d := range durations(p.Text) {
							if found++; d > time.Duration(at-life.From)*time.Millisecond+beforeEvents {
								t.Errorf("%s: %q is longer than the session had lasted", p.Name, text)
							}
						}
					}
					says.True(t, found >= 5, "only %d durations were shown", found)
				})
			}
		})
	}
}

// beforeEvents is how much earlier than its first event, and longer than its last, a recorded session may have been.
const beforeEvents = 2 * time.Minute

// shownDuration is a duration as the dashboard writes it: two units, or one.
var shownDuration = regexp.MustCompile(
	`^(?:(\d+)Y )?(?:(\d+)M )?(?:(\d+)d)?(?: ?(\d+)h)?(?: ?(\d+)m)?(?: ?(\d+)s)?(?: ?(\d+)ms)?$`)

// durations finds what a page shows as one: lines and cells that are nothing else.
func durations(text string) map[string]time.Duration {
	const day = 24 * time.Hour
	units := []time.Duration{365 * day, 30 * day, day, time.Hour, time.Minute, time.Second, time.Millisecond}
	found := map[string]time.Duration{}
	for cell := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\t' }) {
		m := shownDuration.FindStringSubmatch(cell)
		if cell == "" || m == nil {
			continue
		}
		var d time.Duration
		for i, unit := range units {
			n, _ := strconv.Atoi(m[i+1]) // what is not there is 0
			d += time.Duration(n) * unit
		}
		found[cell] = d
	}
	return found
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1M 4d": 34 * 24 * time.Hour, "26s 123ms": 26123 * time.Millisecond, "3m 12s": 192 * time.Second,
		"21h 4m": 21*time.Hour + 4*time.Minute, "5ms": 5 * time.Millisecond,
	} {
		got := durations("Uptime\n\t" + text + "\tlog")
		says.True(t, len(got) == 1 && got[text] == want, "%q: %v", text, got)
	}
}

type life struct{ From, To int64 } // Unix milliseconds

func lifeOf(t *testing.T, base string) (l life) {
	t.Helper()
	get(t, base+"/session_activity", &l)
	return l
}

// pages are all kinds of pages that the dashboard has of a session, every tab of them.
func pages(t *testing.T, base string) []page {
	t.Helper()
	list := []page{
		{Name: "overview", Path: "/#/overview", Wait: "Recent jobs"},
		{Name: "jobs", Path: "/#/jobs", Wait: "Entrypoint"},
		{Name: "serve", Path: "/#/serve"}, {Name: "serve system", Path: "/#/serve/system"},
		{Name: "cluster", Path: "/#/cluster", Wait: "Node List"},
		{Name: "cluster, workers", Path: "/#/cluster", Press: []string{"tbody tr button"}},
		{Name: "cluster, cards", Path: "/#/cluster", Click: []string{"CARD"}},
		{Name: "actors", Path: "/#/actors", Wait: "Actor ID"}, {Name: "metrics", Path: "/#/metrics"},
		{Name: "logs", Path: "/#/logs", Wait: "Node ID"},
	}
	list = append(list, jobPages(t, base)...)
	list = append(list, nodePages(t, base)...)
	list = append(list, actorPages(t, base)...)
	return append(list, servePages(t, base)...)
}

func jobPages(t *testing.T, base string) (list []page) {
	t.Helper()
	var jobs []struct {
		JobID        string `json:"job_id"`
		SubmissionID string `json:"submission_id"`
	}
	get(t, base+"/api/jobs/", &jobs)
	for _, j := range jobs {
		id := j.SubmissionID
		if id == "" {
			id = j.JobID
		}
		list = append(list, page{Name: "job " + id, Path: "/#/jobs/" + url.PathEscape(id), Wait: "Entrypoint"})
	}
	var tasks struct {
		Data struct {
			Result struct {
				Result []struct {
					TaskID string `json:"task_id"`
					JobID  string `json:"job_id"`
					State  string
				}
			}
		}
	}
	get(t, base+"/api/v0/tasks?limit=1000&detail=1", &tasks)
	seen := map[string]bool{}
	for _, task := range tasks.Data.Result.Result {
		// One of each state: a page of tasks is made of what the state has.
		if !seen[task.State] {
			seen[task.State] = true
			list = append(list, page{Name: "task " + task.State,
				Path: "/#/jobs/" + task.JobID + "/tasks/" + task.TaskID, Wait: "Function or class name"})
		}
	}
	return list
}

func nodePages(t *testing.T, base string) (list []page) {
	t.Helper()
	var nodes struct {
		Data struct {
			Summary []struct{ Raylet struct{ NodeID string } }
		}
	}
	get(t, base+"/nodes?view=summary", &nodes)
	for i, n := range nodes.Data.Summary {
		path := "/#/cluster/nodes/" + url.PathEscape(n.Raylet.NodeID)
		list = append(list,
			page{Name: fmt.Sprintf("node %d", i), Path: path, Wait: "Hostname"},
			page{Name: fmt.Sprintf("node %d, workers", i), Path: path,
				Press: []string{"button[role=tab]:nth-of-type(3)"}, Wait: "Cmd Line"},
			page{Name: fmt.Sprintf("node %d, actors", i), Path: path,
				Press: []string{"button[role=tab]:nth-of-type(4)"}, Wait: "Actor ID"},
			page{Name: fmt.Sprintf("logs of node %d", i), Path: "/#/logs/?nodeId=" + n.Raylet.NodeID,
				Wait: "raylet.out"},
		)
	}
	return list
}

func actorPages(t *testing.T, base string) (list []page) {
	t.Helper()
	var actors struct {
		Data struct {
			Actors map[string]struct{ State string }
		}
	}
	get(t, base+"/logical/actors", &actors)
	seen := map[string]bool{}
	for id, a := range actors.Data.Actors {
		if !seen[a.State] {
			seen[a.State] = true
			list = append(list, page{Name: "actor " + a.State, Path: "/#/actors/" + id, Wait: "Class Name"})
		}
	}
	return list
}

func servePages(t *testing.T, base string) (list []page) {
	t.Helper()
	var serve struct {
		Applications map[string]struct {
			Deployments map[string]struct {
				Replicas []struct {
					ReplicaID string `json:"replica_id"`
				}
			}
		}
		Proxies map[string]any
	}
	get(t, base+"/api/serve/applications/", &serve)
	for name, app := range serve.Applications {
		path := "/#/serve/applications/" + url.PathEscape(name)
		list = append(list, page{Name: "serve application " + name, Path: path})
		for deployment, d := range app.Deployments {
			list = append(list, page{Name: "serve deployment " + deployment, Path: path + "/" + deployment})
			for _, r := range d.Replicas[:min(1, len(d.Replicas))] {
				list = append(list, page{Name: "serve replica " + deployment,
					Path: path + "/" + deployment + "/" + r.ReplicaID})
			}
		}
	}
	list = append(list, page{Name: "serve controller", Path: "/#/serve/system/controller"})
	for node := range serve.Proxies {
		list = append(list, page{Name: "serve proxy " + node[:8], Path: "/#/serve/system/proxies/" + node})
	}
	return list
}
