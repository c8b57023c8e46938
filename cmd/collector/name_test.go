package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
)

// TestClusterName: outside of Kubernetes a cluster has a name though no setting gives it one.
func TestClusterName(t *testing.T) {
	host := must.Get(os.Hostname())(t)
	slurm := []string{"SLURM_JOB_ID=77", "SLURM_JOB_NAME=train it.sbatch"}
	for name, tt := range map[string]struct {
		args, env []string
		up        string // what `ray up` wrote
		want      string
		labels    map[string]string
	}{
		"setting": {args: []string{"--ray-cluster-name=lab"}, env: slurm, up: "cluster_name: up\n",
			want: "lab"},
		"ray up": {env: slurm, up: "# of ray up\ncluster_name: up 1\nprovider: {type: aws}\n",
			want: "up-1"},
		"ray up without a name": {up: "provider: {type: aws}\n"},
		"ray up, damaged":       {up: "cluster_name: [\n"},
		"Slurm":                 {env: slurm, want: "train-it.sbatch", labels: map[string]string{slurmLabel: "77"}},
		"Slurm without a name":  {env: slurm[:1], want: "slurm-77", labels: map[string]string{slurmLabel: "77"}},
		"Slurm and labels": {args: []string{"--cluster-labels=team=a"}, env: slurm, want: "train-it.sbatch",
			labels: map[string]string{"team": "a"}},
		"head":           {args: []string{"--role=head"}, want: segment(host)},
		"worker":         {},
		"head in a pod":  {args: []string{"--role=head"}, env: []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}},
		"Slurm in a pod": {env: append(slurm, "KUBERNETES_SERVICE_HOST=10.0.0.1")},
		"name of no bytes": {env: []string{"SLURM_JOB_ID=/", "SLURM_JOB_NAME=../"}, want: "slurm-",
			labels: map[string]string{slurmLabel: "/"}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if tt.up != "" {
				must.OK(t, os.WriteFile(filepath.Join(home, bootstrapFile), []byte(tt.up), 0o600))
			}
			o, _, err := read(tt.args, append(slices.Clone(tt.env), "HOME="+home))
			if o.Cluster != tt.want || !maps.Equal(o.Labels, tt.labels) {
				t.Errorf("%q with %v, want %q with %v", o.Cluster, o.Labels, tt.want, tt.labels)
			}
			if missing := err != nil && strings.Contains(err.Error(),
				"--ray-cluster-name is not set"); missing != (tt.want == "") {
				t.Errorf("error %v", err)
			}
		})
	}
}
