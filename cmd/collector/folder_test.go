package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
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
			err = o.chooseFolder()
			var none *collector.NoRayError
			if tt.want == "" {
				if !errors.As(err, &none) {
					t.Errorf("%v, want a NoRayError", err)
				}
				return
			}
			folder := filepath.Join(dir, tt.want)
			spool := filepath.Join(folder, defaultSpool)
			if tt.spool != "" {
				spool = tt.spool
			}
			if err != nil || o.RayTmpDir != folder || o.SpoolDir != spool {
				t.Errorf("%v, folder %s, spool %s; want %s, %s", err, o.RayTmpDir, o.SpoolDir, folder, spool)
			}
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
			err = o.chooseFolder()
		}
		if err != nil || o.RayTmpDir != tt.want || o.SpoolDir != filepath.Join(tt.want, defaultSpool) {
			t.Errorf("%s: %v, %s, %s", name, err, o.RayTmpDir, o.SpoolDir)
		}
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
			says.Equal(t, err != nil && strings.Contains(err.Error(), "--ray-cluster-name is not set"), tt.want == "",
				"error %v", err)
		})
	}
}

// TestInjectKnowsOwnSettings: `collector inject` refuses every flag and variable by which a user would set what it sets
// itself, and no other.
func TestInjectKnowsOwnSettings(t *testing.T) {
	type own struct {
		head                             bool
		events, metrics                  int
		tmpDir, dashboard, backend, root string
	}
	read := func(args, environ []string) (own, bool) {
		o, _, err := read(append(args, "--ray-cluster-name=a", "--storage-backend-config-path=/dev/null"), environ)
		return own{head: o.Head, events: o.listeners.EventsPort, metrics: o.listeners.MetricsPort, tmpDir: o.RayTmpDir,
			dashboard: o.Dashboard, backend: o.storage.Backend, root: o.Root}, err == nil
	}
	usual, _ := read(nil, nil)
	refuses := func(o inject.Options) bool {
		o.Image, o.EventsPort, o.MetricsPort = "collector:v1", inject.DefaultEventsPort, inject.DefaultMetricsPort
		o.StorageBackend = "s3"
		return o.Check() != nil
	}
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	defaults().addFlags(all)
	all.VisitAll(func(f *pflag.Flag) {
		for _, value := range []string{"true", "9999", "head", "http://d:1"} {
			flag := "--" + f.Name + "=" + value
			is, valid := read([]string{flag}, nil)
			if sets := is != usual; valid && sets != refuses(inject.Options{Args: []string{flag}}) {
				t.Errorf("%s sets what inject sets: %t", flag, sets)
			}
			variable := "RAYHISTORY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
			for _, name := range append([]string{variable}, f.Annotations["rayhistory/env"]...) {
				is, valid := read(nil, []string{name + "=" + value})
				is.root = usual.root // nothing follows the folder: where no flag gives it, a variable may
				if sets := is != usual; valid && sets != refuses(inject.Options{Env: []string{name + "=" + value}}) {
					t.Errorf("%s=%s sets what inject sets: %t", name, value, sets)
				}
			}
		}
	})
}

func TestCheckInjected(t *testing.T) {
	for name, tt := range map[string]struct {
		args, env []string
		more      bool // settings follow from a ConfigMap or Secret
		want      string
	}{
		"complete":  {args: []string{"--storage-backend=s3"}, env: []string{"S3_BUCKET=b"}},
		"no bucket": {args: []string{"--storage-backend=s3"}, want: "--s3-bucket is not set"},
		"no container": {args: []string{"--storage-backend=azureblob"},
			want: "--azure-container is not set"},
		"bucket elsewhere":    {args: []string{"--storage-backend=s3"}, more: true},
		"backend by variable": {env: []string{"STORAGE_BACKEND=gcs"}, want: "--gcs-bucket is not set"},
		"mistyped variable": {args: []string{"--storage-backend=s3"},
			env:  []string{"S3_BUCKET=b", "RAYHISTORY_PUSH_INTERVALL=30s"},
			want: "unknown environment variable RAYHISTORY_PUSH_INTERVALL"},
		"mistyped and elsewhere": {env: []string{"RAYHISTORY_PUSH_INTERVALL=30s"}, more: true,
			want: "RAYHISTORY_PUSH_INTERVALL"},
		"unknown flag": {args: []string{"--storage-backend=s3", "--push-intervall=30s"}, more: true,
			want: "unknown flag: --push-intervall"},
		"value": {args: []string{"--storage-backend=s3", "--push-interval=0"}, more: true,
			want: "--push-interval=0s: want more than 0"},
		"value by variable": {env: []string{"RAYHISTORY_PUSH_INTERVAL=soon"}, more: true,
			want: "RAYHISTORY_PUSH_INTERVAL"},
		"two names, two values": {env: []string{"RAY_ROOT_DIR=a", "STORAGE_ROOT_DIR=b"}, more: true,
			want: "contradicts"},
		"folder outside": {args: []string{"--storage-root-dir=../x"}, more: true,
			want: "want a folder of the bucket"},
		"others' variables": {args: []string{"--storage-backend=s3"},
			env: []string{"S3_BUCKET=b", "HTTPS_PROXY=http://p:1", "AWS_REGION=eu-central-1"}},
		"compression of no kind": {args: []string{"--log-compression=lzma"}, more: true, want: "--log-compression"},
		"contradicting old flags": {args: []string{"--event-compression=zstd", "--event-compression-enabled"},
			more: true, want: "contradicts"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkInjected(tt.args, tt.env, !tt.more)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
