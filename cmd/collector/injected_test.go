package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

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
