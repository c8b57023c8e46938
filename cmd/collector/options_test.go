package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/testkit/docblock"
	"github.com/rayhistory/historyserver/internal/testkit/flagdocs"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/collector/sink"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
	"github.com/rayhistory/historyserver/pkg/layout"
	"github.com/rayhistory/historyserver/pkg/ray/event"
)

func TestSettings(t *testing.T) {
	name := []string{"--ray-cluster-name=lab"}
	for title, test := range map[string]struct {
		args, env []string
		check     func(*options) bool
		err       string // a part of it
	}{
		"defaults": {args: name, check: func(o *options) bool {
			c := o.Options
			return !c.Head && c.Namespace == "default" && c.Root == "log" && c.RayTmpDir == "/tmp/ray" &&
				c.SpoolDir == "/tmp/ray/.rayhistory" &&
				o.listeners.EventsAddress == "localhost" && o.listeners.EventsPort == 8084 && o.listeners.MetricsAddress == "" &&
				o.listeners.MetricsPort == 8085 && c.Ship.PushInterval == time.Minute &&
				o.shutdownTimeout == 25*time.Second && o.storage.Backend == "local"
		}},
		"KubeRay 1.6's flags": {
			args: []string{"--role=Head", "--runtime-class-name=local", "--ray-cluster-name=lab",
				"--ray-cluster-id=prod", "--ray-root-dir=log", "--events-port=8084", "--log-batching=1000"},
			check: func(o *options) bool { return o.Head && o.namespace == "prod" && o.storage.Backend == "local" },
		},
		"KubeRay's newer flags": {
			args: []string{"--role=Worker", "--storage-backend=local", "--storage-root-dir=x", "--ray-cluster-name=lab",
				"--owner-kind=RayJob", "--owner-name=nightly", "--cluster-labels=team=search,stage=prod",
				"--event-data-dir=/spool", "--event-compression-enabled", "--enable-event-collector=true",
				"--enable-log-collector=true"},
			check: func(o *options) bool {
				c := o.Options
				return c.OwnerKind == "RayJob" && len(c.Labels) == 2 && c.Labels["stage"] == "prod" &&
					c.SpoolDir == "/spool" && c.EventCompression == layout.Gzip && c.LogCompression == layout.Plain &&
					c.Root == "x"
			},
		},
		"environment": {
			env: []string{"RAY_CLUSTER_NAME=lab", "RAY_CLUSTER_NAMESPACE=prod", "RAY_ROLE=HEAD", "PUSH_INTERVAL=5s",
				"EVENTS_PORT=9", "RAY_TMP_ROOT=/r", "POD_IP=10.0.0.1",
				"RAY_COLLECTOR_ADDITIONAL_ENDPOINTS=/a,/b?x=1", "RAY_COLLECTOR_POLL_INTERVAL=1m",
				"RAYHISTORY_LOG_COMPRESSION=zstd", "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN=secret"},
			check: func(o *options) bool {
				c := o.Options
				token, err := c.Token()
				return c.Head && c.Cluster == "lab" && c.Namespace == "prod" && c.Ship.PushInterval == 5*time.Second &&
					o.listeners.EventsPort == 9 && c.SpoolDir == "/r/.rayhistory" &&
					c.PodIP == "10.0.0.1" && strings.Join(c.Snapshot.Additional, " ") == "/a /b?x=1" &&
					c.Snapshot.Interval == time.Minute && c.LogCompression == layout.Zstd && token == "secret" &&
					err == nil
			},
		},
		"environment of KubeRay's newer collector": {
			args: name,
			env: []string{"RAY_COLLECTOR_EVENT_DATA_DIR=/spool", "RAY_COLLECTOR_EVENT_COMPRESSION_ENABLED=true",
				"RAY_COLLECTOR_EVENT_ROTATION_INTERVAL=30s",
				"RAY_COLLECTOR_EVENT_MAX_FILE_SIZE_MB=10", "RAY_COLLECTOR_EVENT_MAX_DISK_MB=100", "STORAGE_ROOT_DIR=/"},
			check: func(o *options) bool {
				c := o.Options
				return c.SpoolDir == "/spool" && c.EventCompression == layout.Gzip &&
					c.LogCompression == layout.Plain && o.storage.Top
			},
		},
		"ray-head": {args: append(name, "--ray-head"), check: func(o *options) bool { return o.Options.Head }},
		"upload rate": {args: append(name, "--upload-bytes-per-second=2MiB", "--spool-max-bytes=1Gi"),
			check: func(o *options) bool { return o.Options.Ship.BytesPerSecond == 2<<20 }},
		"chunk size": {args: append(name, "--max-chunk-bytes=1MiB"),
			check: func(o *options) bool { return o.Options.Ship.MaxChunk == 1<<20 }},
		"chunk size by variable": {args: name, env: []string{"RAYHISTORY_MAX_CHUNK_BYTES=512Ki"},
			check: func(o *options) bool { return o.Options.Ship.MaxChunk == 512<<10 }},
		"small chunks": {args: append(name, "--max-chunk-bytes=1KiB"), err: "--max-chunk-bytes=1024: want 65536"},
		"large chunks": {args: append(name, "--max-chunk-bytes=1GiB"), err: "--max-chunk-bytes=1073741824: want"},
		"no logs":      {args: append(name, "--enable-log-collector=false"), err: "--enable-log-collector=false: this"},
		"no events":    {args: name, env: []string{"ENABLE_EVENT_COLLECTOR=false"}, err: "--enable-event-collector=false"},
		"no cluster":   {err: "--ray-cluster-name is not set"},
		"bad cluster":  {args: []string{"--ray-cluster-name=a/b"}, err: `--ray-cluster-name="a/b"`},
		"a Kubernetes cluster": {
			args:  append(name, "--ray-cluster-namespace=team-a"),
			env:   []string{"RAYHISTORY_KUBERNETES_CLUSTER=prod-eu"},
			check: func(o *options) bool { return o.Options.Namespace == "team-a.prod-eu" },
		},
		"bad Kubernetes cluster": {args: append(name, "--kubernetes-cluster=prod.eu"),
			err: `--kubernetes-cluster="prod.eu": want a name such as`},
		"namespace with a dot": {args: append(name, "--ray-cluster-namespace=team-a.prod-eu"),
			err: "want a Kubernetes namespace"},
		"bad namespace": {args: append(name, "--ray-cluster-namespace=a_b"), err: `--ray-cluster-namespace="a_b"`},
		"bad role":      {args: append(name, "--role=boss"), err: `--role="boss": want head or worker`},
		"role contradicts": {args: append(name, "--role=worker", "--ray-head"),
			err: `--role="worker" contradicts --ray-head`},
		"owner without kind": {args: append(name, "--owner-name=x"), err: "give both or neither"},
		"compression": {args: append(name, "--log-compression=lz4"),
			err: `--log-compression="lz4": want none, gzip or zstd`},
		"compressions disagree": {args: append(name, "--event-compression=zstd", "--event-compression-enabled"),
			err: "contradicts --event-compression-enabled"},
		"zero interval": {args: append(name, "--push-interval=0s"), err: "--push-interval=0s: want more than 0"},
		"concurrency":   {args: append(name, "--upload-concurrency=0"), err: "--upload-concurrency=0"},
		"port":          {args: append(name, "--events-port=70000"), err: "--events-port=70000"},
		"metrics port":  {args: append(name, "--metrics-port=-1"), err: "--metrics-port=-1"},
		"one port for both": {args: append(name, "--metrics-port=8084"),
			err: "--events-port and --metrics-port are both 8084"},
		"events from anywhere": {args: append(name, "--events-address=", "--metrics-address=10.0.0.1"),
			check: func(o *options) bool {
				return o.listeners.EventsAddress == "" && o.listeners.MetricsAddress == "10.0.0.1"
			}},
		"address":   {args: append(name, "--events-address=here"), err: `--events-address="here": want an IP address`},
		"endpoint":  {args: append(name, "--additional-endpoints=nodes"), err: `"nodes": want a path`},
		"auth mode": {args: append(name, "--ray-auth-mode=basic"), err: `--ray-auth-mode="basic"`},
		"log level": {args: append(name, "--log-level=loud"), err: `--log-level="loud"`},
		"unknown variable": {args: append(name, "--exit-on-error"), env: []string{"RAYHISTORY_PUSH_INTERVALL=1s"},
			err: "RAYHISTORY_PUSH_INTERVALL"},
		"spellings disagree": {args: append(name, "--ray-cluster-namespace=a", "--ray-cluster-id=b"),
			err: "contradicts"},
	} {
		t.Run(title, func(t *testing.T) {
			o, _, err := read(test.args, test.env)
			if test.err != "" {
				says.Error(t, err, test.err, "error %v, want one with %s", err, test.err)
				return
			}
			says.True(t, err == nil && test.check(o), "options %+v, %v", o, err)
		})
	}
}

func TestCommandHasInject(t *testing.T) {
	c, _, err := command().Find([]string{"inject"})
	says.True(t, err == nil && c.Name() == "inject", "found %v, %v", c, err)
}

// TestHelp: each flag is in the help, or in that of storage, with its other names, and so are the commands.
func TestHelp(t *testing.T) {
	helpOf := func(args ...string) string {
		cmd := command()
		var out strings.Builder
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		must.OK(t, cmd.Execute())
		return out.String()
	}
	help, storage := helpOf("--help"), helpOf("help", "storage")
	command().Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" || settings.IsAlias(f) {
			return
		}
		says.True(t, strings.Contains(help, "--"+f.Name+" ") || strings.Contains(storage, "--"+f.Name+" "),
			"--%s is in no help", f.Name)
	})
	for _, want := range []string{"\nEvents and spool:\n", "\nUploads:\n", "RAY_ROLE", "(default 1m)"} {
		says.True(t, strings.Contains(help, want), "no %q in the help:\n%s", want, help)
	}
	says.True(t, strings.Contains(storage, "S3_BUCKET"), "help of storage:\n%s", storage)
	for _, name := range []string{"inject", "env"} {
		says.True(t, strings.Contains(help, "\n  "+name+" "), "the help does not name the command %s", name)
		_, flags, _ := strings.Cut(helpOf(name, "--help"), "\nFlags:\n")
		for line := range strings.Lines(flags) {
			says.True(t, len(line) <= 121, "%s: a flag's line is too long:\n%s", name, line)
		}
		says.Equal(t, strings.Contains(flags, "environment variable: "), (name == "env"),
			"%s: says that flags are variables", name)
	}
}

// TestEnv: a shell that evaluates what is printed has each of Ray's variables.
func TestEnv(t *testing.T) {
	var script strings.Builder
	must.OK(t, writeEnv(&script, "sh", 9084, ""))
	shell := exec.Command("sh", "-c", script.String()+"env")
	shell.Env = []string{"PATH=" + os.Getenv("PATH")}
	told := string(must.Get(shell.Output())(t))
	types := strings.Join(event.TypeNames(), ",")
	for _, want := range []string{
		"RAY_enable_ray_event=true", "RAY_enable_core_worker_ray_event_to_aggregator=true",
		"RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR=http://127.0.0.1:9084/v1/events",
		"RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES=" + types,
		"RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES=" + types,
	} {
		says.True(t, strings.Contains("\n"+told, "\n"+want+"\n"), "no %s in\n%s", want, told)
	}
	for shell, want := range map[string]string{
		"fish":    "set -gx RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES 'ALL';\n",
		"systemd": "\nRAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES='ALL'\n",
	} {
		var out strings.Builder
		must.OK(t, writeEnv(&out, shell, 8084, "2.60.0"))
		says.True(t, strings.Contains(out.String(), want), "%s: %s", shell, &out)
	}
	says.Error(t, writeEnv(io.Discard, "sh", 8084, "v2"), "such as 2.60.0", "a version that is none")
}

func TestEnvMistakes(t *testing.T) {
	t.Setenv("RAYHISTORY_ROLE", "head") // the collector's variables are known to the command
	for _, tt := range []struct {
		args []string
		want string // of the error
	}{
		{args: nil},
		{args: []string{"--shell=csh"}, want: "want fish, sh or systemd"},
		{args: []string{"--events-port=0"}, want: "--events-port=0"},
		{args: []string{"head"}, want: "head"},
	} {
		cmd := envCommand()
		cmd.SetArgs(append([]string{}, tt.args...))
		cmd.SetOut(new(strings.Builder))
		err := cmd.Execute()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q: %v, want %q", tt.args, err, tt.want)
		}
	}
}

// TestMemoryFits: what may be held at a time fits the limit, whatever it is, down to what Ray's batches need.
func TestMemoryFits(t *testing.T) {
	for _, limit := range []int64{0, 128 << 20, 144 << 20, 256 << 20, 1 << 30} {
		for _, uploads := range []int{1, 4} {
			m := planMemory(limit, uploads, 8<<20)
			held := baseMemory + int64(uploads)*8<<20 + bodyCopies*m.eventBody
			says.True(t, m.eventBody >= minEventBody && m.eventBody <= sink.DefaultMaxBody && m.soft >= held,
				"limit %d, %d uploads: %+v", limit, uploads, m)
			says.True(t, limit <= 0 || m.soft <= limit*9/10 && limit >= m.wanted, "limit %d, %d uploads: %+v", limit,
				uploads, m)
		}
	}
	if m := planMemory(256<<20, 4, 8<<20); m.eventBody != sink.DefaultMaxBody {
		t.Errorf("within the manifests' 256 MiB bodies may have %d bytes", m.eventBody)
	}
	if m := planMemory(64<<20, 4, 8<<20); m.wanted <= 64<<20 || m.eventBody != minEventBody || m.soft > 58<<20 {
		t.Errorf("64 MiB: %+v", m)
	}
}

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	root := func(limit string) fstest.MapFS {
		return fstest.MapFS{"proc/self/cgroup": {Data: []byte("0::/\n")},
			"sys/fs/cgroup/memory.max": {Data: []byte(limit)}}
	}
	o, _, err := read([]string{"--ray-cluster-name=lab"}, nil)
	must.OK(t, err)
	log, logged := logtest.NewNullLogger()
	t.Setenv("GOMEMLIMIT", "")
	if body := o.limitMemory(root("167772160"), log); body != 32<<20 || debug.SetMemoryLimit(-1) != 144<<20 {
		t.Errorf("160 MiB: bodies of %d bytes, soft limit %d", body, debug.SetMemoryLimit(-1))
	}
	if len(logged.AllEntries()) > 0 {
		t.Errorf("warned: %s", logged.LastEntry().Message)
	}
	o.limitMemory(root("67108864"), log)
	if e := logged.LastEntry(); e == nil || !strings.Contains(e.Message, "give the container") {
		t.Errorf("no warning of a limit that is too low: %v", e)
	}
	t.Setenv("GOMEMLIMIT", "200MiB")
	debug.SetMemoryLimit(200 << 20)
	if body := o.limitMemory(root("max"), log); body != 50<<20 || debug.SetMemoryLimit(-1) != 200<<20 {
		t.Errorf("GOMEMLIMIT: bodies of %d bytes, soft limit %d", body, debug.SetMemoryLimit(-1))
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
		"complete":            {args: []string{"--storage-backend=s3"}, env: []string{"S3_BUCKET=b"}},
		"no bucket":           {args: []string{"--storage-backend=s3"}, want: "--s3-bucket is not set"},
		"no container":        {args: []string{"--storage-backend=azureblob"}, want: "--azure-container is not set"},
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
		"folder outside": {args: []string{"--storage-root-dir=../x"}, more: true, want: "want a folder of the bucket"},
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

// TestPagesStateDefaults: where pages state the default of a flag, it is that.
func TestPagesStateDefaults(t *testing.T) { flagdocs.Defaults(t, command().Flags(), "../..", 8) }

// TestDocs: docs/dev/features.md has the names of the flags. UPDATE_DOCS=1 writes them.
func TestDocs(t *testing.T) {
	var help bytes.Buffer
	cmd := command()
	cmd.SetOut(&help)
	cmd.SetArgs([]string{"--help"})
	must.OK(t, cmd.Execute())
	docblock.Keep(t, "../../docs/dev/features.md", "collector", docblock.Flags(help.String()))
}
