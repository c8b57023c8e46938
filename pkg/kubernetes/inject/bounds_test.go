package inject

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestBounds: whoever may make a RayCluster writes the texts that the webhook reads: none takes much more memory than
// it has bytes.
func TestBounds(t *testing.T) {
	doubled := []any{map[string]any{"name": "V0", "value": strings.Repeat("x", 64)}}
	shell := "V0=" + strings.Repeat("x", 64) + "\n"
	for i := range 60 {
		doubled = append(doubled, map[string]any{"name": fmt.Sprintf("V%d", i+1),
			"value": fmt.Sprintf("$(V%d)$(V%d)", i, i)})
		shell += fmt.Sprintf("V%d=$V%d$V%d\n", i+1, i, i)
	}
	many := []any{map[string]any{"name": "A", "value": strings.Repeat("x", 32<<10)}}
	for i := range 10_000 {
		many = append(many, map[string]any{"name": fmt.Sprintf("B%d", i), "value": "$(A)"})
	}
	script := func(text string) map[string]any { return map[string]any{"command": []any{"bash", "-c", text}} }
	nested := "ray start --head"
	for range 12 {
		nested = "bash -c " + quote(nested)
	}
	chain, mounts := []any{map[string]any{"name": "V0", "value": "$(NONE)"}}, []any{}
	for i := range 5_000 {
		chain = append(chain, map[string]any{"name": fmt.Sprintf("V%d", i+1),
			"value": fmt.Sprintf("$(V%d)$(V%d)", i, i)})
		mounts = append(mounts, map[string]any{"name": "v", "mountPath": fmt.Sprintf("/tmp/ray/%d", i),
			"subPathExpr": "$(V5000)"})
	}
	for name, ray := range map[string]map[string]any{
		"mounts by a chain": {"env": chain, "volumeMounts": mounts,
			"envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "c"}}}},
		"variables that double": {"env": doubled},
		"many variables":        {"env": many},
		"a script that doubles": script(shell + "ray start --head $V60"),
		"many parts": script(`A=x; ray start --head "` + strings.Repeat("$A", 30_000) + `" ` +
			strings.Repeat("$A", 1_000)),
		"many words":       script("A='" + strings.Repeat("x ", 15_000) + "'; ray start --head $A $A $A $A"),
		"a loop of evals":  script("A='eval $A'; eval $A; ray start --head"),
		"brackets":         script(strings.Repeat("(", 200_000)),
		"brackets, closed": script(strings.Repeat("(", 30_000) + "true" + strings.Repeat(")", 30_000)),
		"substitutions":    script("ray start --head " + strings.Repeat("$(", 20_000) + strings.Repeat(")", 20_000)),
		"conditions": script(strings.Repeat("if true; then ", 4_000) + "ray start --head; " +
			strings.Repeat("fi; ", 4_000)),
		"defaults":         script("ray start --head " + strings.Repeat("${A:-", 10_000) + strings.Repeat("}", 10_000)),
		"a long script":    script(strings.Repeat("true\n", 100_000)),
		"shells in shells": script(nested),
		"many starts":      script(strings.Repeat("ray start --head --temp-dir=/x\n", 2_000)),
		"no shell":         script("\x00\xff\xfe'\"`"),
	} {
		t.Run(name, func(t *testing.T) {
			ray["name"] = "ray"
			pod := map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{ray}}}}
			object := map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster",
				"spec": map[string]any{"headGroupSpec": pod}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			changes, err := Mutate(object, s3())
			runtime.ReadMemStats(&after)
			must.True(t, err == nil && len(changes) == 1 && len(changes[0].Done) == 1, "%v, %v", changes, err)
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 128<<20 {
				t.Errorf("%d MiB were allocated", taken>>20)
			} else {
				t.Logf("%d KiB, stacks %d KiB; %.120q", taken>>10, after.StackSys>>10, changes[0].Warnings)
			}
		})
	}
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
