package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector"
)

// TestChooseFolder: of two folders the one with Ray's latest session is Ray's, and the spool follows it.
func TestChooseFolder(t *testing.T) {
	const early, late = "session_2026-11-25_01-00-00_000001_1", "session_2026-11-25_02-00-00_000001_1"
	for name, tt := range map[string]struct {
		made  []string // below the folders a and b
		spool string
		want  string // empty: not yet
	}{
		"nothing":               {},
		"empty folders":         {made: []string{"a", "b"}},
		"first":                 {made: []string{"a/" + early}, want: "a"},
		"second":                {made: []string{"a", "b/" + early}, want: "b"},
		"the latest":            {made: []string{"a/" + early, "b/" + late}, want: "b"},
		"the latest, the other": {made: []string{"a/" + late, "b/" + early}, want: "a"},
		"no session":            {made: []string{"a/session_latest", "a/spill", "b/" + early}, want: "b"},
		"a spool of its own":    {made: []string{"b/" + early}, spool: "/spool", want: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, m := range tt.made {
				must.OK(t, os.MkdirAll(filepath.Join(dir, m), 0o755))
			}
			args := []string{"--ray-cluster-name=c", "--ray-tmp-dir=" + filepath.Join(dir, "a"),
				"--ray-head-tmp-dir=" + filepath.Join(dir, "b")}
			if tt.spool != "" {
				args = append(args, "--spool-dir="+tt.spool)
			}
			o, _, err := read(args, nil)
			must.OK(t, err)
			err = o.chooseRayFolder()
			var none *collector.NoRayError
			if tt.want == "" {
				says.True(t, errors.As(err, &none), "%v, want a NoRayError", err)
				return
			}
			folder := filepath.Join(dir, tt.want)
			spool := filepath.Join(folder, defaultSpool)
			if tt.spool != "" {
				spool = tt.spool
			}
			says.True(t, err == nil && o.RayTmpDir == folder && o.SpoolDir == spool,
				"%v, folder %s, spool %s; want %s, %s", err, o.RayTmpDir, o.SpoolDir, folder, spool)
		})
	}
}

// TestOneFolder: a single folder is Ray's even before Ray has made it.
func TestOneFolder(t *testing.T) {
	for name, tt := range map[string]struct {
		args, env []string
		want      string
	}{
		"default":  {want: "/tmp/ray"},
		"flag":     {args: []string{"--ray-tmp-dir=/x"}, want: "/x"},
		"variable": {env: []string{"RAY_TMP_ROOT=/y"}, want: "/y"},
	} {
		o, _, err := read(append(tt.args, "--ray-cluster-name=c"), tt.env)
		if err == nil {
			err = o.chooseRayFolder()
		}
		says.True(t, err == nil && o.RayTmpDir == tt.want && o.SpoolDir == filepath.Join(tt.want, defaultSpool),
			"%s: %v, %s, %s", name, err, o.RayTmpDir, o.SpoolDir)
	}
}

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
		"head":           {args: []string{"--role=head"}, want: keyPart(host)},
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
			says.True(t, o.Cluster == tt.want && maps.Equal(o.Labels, tt.labels), "%q with %v, want %q with %v",
				o.Cluster, o.Labels, tt.want, tt.labels)
			says.Equal(t, err != nil && strings.Contains(err.Error(), "--ray-cluster-name is not set"), tt.want == "",
				"error %v", err)
		})
	}
}
