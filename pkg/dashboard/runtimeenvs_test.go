package dashboard

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/lines"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/ray/pyjson"
	"github.com/rayhistory/historyserver/pkg/ray/rayid"
)

// agentLog is what the agent of Ray 2.60 logs: an environment made, used again and released, one that fails three
// times, one removed, one that is being made, and one of which the beginning is lost.
const agentLog = `2026-11-20 23:20:26,699	INFO runtime_env_agent.py:543 -- Creating runtime env: {"env_vars": {"A": "1"}} with timeout 600 seconds.
2026-11-20 23:20:26,713	INFO runtime_env_agent.py:593 -- Successfully created runtime env: {"env_vars": {"A": "1"}}, context: {"py_executable": "python"}
2026-11-20 23:20:27,000	INFO runtime_env_agent.py:632 -- Runtime env already created successfully. Env: {"env_vars": {"A": "1"}}, context: {"py_executable": "python"}
2026-11-20 23:20:28,000	INFO runtime_env_agent.py:543 -- Creating runtime env: {"working_dir": "https://x/y.zip"} with timeout 600 seconds.
2026-11-20 23:20:28,500	ERROR runtime_env_agent.py:569 -- Failed to create runtime env {"working_dir": "https://x/y.zip"}.
Traceback (most recent call last):
first
2026-11-20 23:20:29,500	ERROR runtime_env_agent.py:569 -- Failed to create runtime env {"working_dir": "https://x/y.zip"}.
Traceback (most recent call last):
second
2026-11-20 23:20:29,501	ERROR runtime_env_agent.py:587 -- runtime_env creation failed 3 times, giving up.
2026-11-20 23:20:30,000	INFO runtime_env_agent.py:705 -- Got request from raylet to decrease reference for runtime env: {"env_vars": {"A": "1"}}.
2026-11-20 23:20:31,000	INFO runtime_env_agent.py:543 -- Creating runtime env: {"env_vars": {"B": "1"}} with timeout 600 seconds.
2026-11-20 23:20:31,010	INFO runtime_env_agent.py:593 -- Successfully created runtime env: {"env_vars": {"B": "1"}}, context: {}
2026-11-20 23:20:32,000	INFO runtime_env_agent.py:705 -- Got request from raylet to decrease reference for runtime env: {"env_vars": {"B": "1"}}.
2026-11-20 23:20:32,000	INFO runtime_env_agent.py:284 -- Unused runtime env {"env_vars": {"B": "1"}}.
2026-11-20 23:20:32,001	INFO runtime_env_agent.py:446 -- Runtime env {"env_vars": {"B": "1"}} removed from env-level cache.
2026-11-20 23:20:33,000	INFO runtime_env_agent.py:543 -- Creating runtime env: {"env_vars": {"C": "1"}} with timeout 600 seconds.
2026-11-20 23:20:34,000	INFO runtime_env_agent.py:593 -- Successfully created runtime env: {"env_vars": {"D": "1"}}, context: {}
`

// readEnvLog reads an agent's log with so many bytes of memory.
func readEnvLog(text string, memory int64) ([]envChange, error) {
	var left atomic.Int64
	left.Store(memory)
	log := envLog{zone: time.UTC, left: &left, envs: map[string]*loggedEnv{}}
	_, err := io.WriteString(&lines.Writer{Max: maxEnvLine, Line: log.addLine}, text)
	return log.changes, err
}

func TestLoggedRuntimeEnvs(t *testing.T) {
	envs := nodeEnvs{rayid.Node{1}, must.Get(readEnvLog(agentLog, maxEnvMemory))(t)}
	for _, tt := range []struct {
		name string
		at   string
		want []string
	}{
		{"at the end", "", []string{
			`{"runtime_env": {"env_vars": {"A": "1"}}, "success": true, "creation_time_ms": "14", "ref_cnt": "1", "error": null}`,
			`{"runtime_env": {"working_dir": "https://x/y.zip"}, "success": false, "creation_time_ms": "1501", "ref_cnt": "0", "error": "Traceback (most recent call last):\nsecond\n"}`,
		}},
		{"while one is being made", "2026-11-20T23:20:28.6Z", []string{
			`{"runtime_env": {"env_vars": {"A": "1"}}, "success": true, "creation_time_ms": "14", "ref_cnt": "2", "error": null}`,
		}},
		{"before any", "2026-11-20T23:20:00Z", nil},
		{"before one is removed", "2026-11-20T23:20:31.5Z", []string{
			`{"runtime_env": {"env_vars": {"A": "1"}}, "success": true, "creation_time_ms": "14", "ref_cnt": "1", "error": null}`,
			`{"runtime_env": {"working_dir": "https://x/y.zip"}, "success": false, "creation_time_ms": "1501", "ref_cnt": "0", "error": "Traceback (most recent call last):\nsecond\n"}`,
			`{"runtime_env": {"env_vars": {"B": "1"}}, "success": true, "creation_time_ms": "10", "ref_cnt": "1", "error": null}`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := int64(0)
			if tt.at != "" {
				moment := must.Get(time.Parse(time.RFC3339, tt.at))(t)
				at = moment.UnixNano()
			}
			var got []string
			for _, row := range envs.rowsAt(at) {
				says.Equal(t, row.String("node_id"), envs.node.String(), "node")
				row.Delete("node_id")
				got = append(got, string(pyjson.Append(nil, row)))
			}
			says.Equal(t, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
		})
	}
}

func FuzzEnvLog(f *testing.F) {
	f.Add([]byte(agentLog))
	f.Fuzz(func(t *testing.T, text []byte) {
		changes, _ := readEnvLog(string(text), 1<<20)
		nodeEnvs{changes: changes}.rowsAt(0)
	})
}

// TestChangesShareEnvironments: a log says thousands of times that the same environment is used; it is held once.
func TestChangesShareEnvironments(t *testing.T) {
	changes := must.Get(readEnvLog(agentLog, maxEnvMemory))(t)
	says.True(t, len(changes) >= 3 && changes[0].env != nil && changes[2].env == changes[0].env, "%+v", changes)
}

// TestHostileEnvLog: whatever a log says, it takes no more memory than it may.
func TestHostileEnvLog(t *testing.T) {
	const memory = 1 << 20
	const line = "2026-11-20 23:20:26,699\tINFO runtime_env_agent.py:543 -- Creating runtime env: "
	many := &strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(many, "%s{\"env_vars\": {\"A\": \"%d\"}}\n", line, i)
	}
	for name, text := range map[string]string{
		"many environments": many.String(),
		"a wide one":        line + `{"a": [` + strings.Repeat("{},", 200_000) + "{}]}\n",
		"many changes":      strings.Repeat(line+"{}\n", 50_000),
		"a traceback": strings.Replace(line, "Creating runtime env: ", "Failed to create runtime env ", 1) + "{}\n" +
			strings.Repeat(strings.Repeat("x", 999)+"\n", 2000),
	} {
		changes, err := readEnvLog(text, memory)
		says.True(t, errors.Is(err, pyjson.ErrTooLarge) && len(changes) <= memory/changeBytes, "%s: %d changes, %v",
			name, len(changes), err)
	}
}
