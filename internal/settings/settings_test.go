package settings

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

type config struct {
	bucket, backend, key string
	ssl                  bool
	interval             time.Duration
	path                 string
	port                 int
	hosts                []string
	labels               map[string]string
}

func flags(c *config) *pflag.FlagSet {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.StringVar(&c.bucket, "s3-bucket", "ray-historyserver", "name of the `bucket`")
	fs.StringVar(&c.backend, "storage-backend", "local", "s3|local")
	fs.StringVar(&c.key, "s3-secret-key", "", "secret")
	fs.BoolVar(&c.ssl, "s3-ssl", true, "encrypt")
	fs.DurationVar(&c.interval, "push-interval", time.Minute, "how often")
	fs.StringVar(&c.path, "config-path", c.path, "file")
	fs.StringSliceVar(&c.hosts, "hosts", nil, "hosts")
	fs.StringToStringVar(&c.labels, "labels", nil, "labels")
	fs.IntVar(&c.port, "events-port", 8084, "port")
	Alias(fs, "storage-backend", "runtime-class-name")
	Alias(fs, "s3-ssl", "s3-tls")
	Bind(fs, map[string][]string{"s3-bucket": {"S3_BUCKET"}, "storage-backend": {"STORAGE_BACKEND"},
		"s3-secret-key": {"AWS_S3SECRET", "OTHER_SECRET"}, "events-port": {"EVENTS_PORT"}})
	Bind(fs, map[string][]string{"s3-bucket": {"s3Bucket"}, "s3-ssl": {"s3SSL"}})
	Secret(fs, "s3-secret-key")
	FilePath(fs, "config-path")
	return fs
}

func TestLoad(t *testing.T) {
	want := config{bucket: "ray-historyserver", backend: "local", ssl: true, interval: time.Minute,
		port: 8084}
	for name, test := range map[string]struct {
		args, env []string
		file      string
		change    func(*config)
		err       string // a part of the error
	}{
		"defaults": {change: func(*config) {}},
		"flag over environment": {args: []string{"--s3-bucket=a"}, env: []string{"S3_BUCKET=b"},
			change: func(c *config) { c.bucket = "a" }},
		"environment over file": {env: []string{"S3_BUCKET=b"}, file: `{"s3Bucket":"c"}`,
			change: func(c *config) { c.bucket = "b" }},
		"file over default": {file: `{"s3Bucket":"c","push-interval":"5s","s3SSL":"false"}`,
			change: func(c *config) { c.bucket, c.interval, c.ssl = "c", 5*time.Second, false }},
		"file with typed values": {file: `{"s3-ssl":false,"s3-bucket":17}`,
			change: func(c *config) { c.bucket, c.ssl = "17", false }},
		"empty file":      {file: " ", change: func(*config) {}},
		"byte order mark": {file: "\ufeff{\r\n\"s3Bucket\":\"c\"}", change: func(c *config) { c.bucket = "c" }},
		"own variable": {env: []string{"RAYHISTORY_PUSH_INTERVAL=3s"},
			change: func(c *config) { c.interval = 3 * time.Second }},
		"empty variable is unset": {env: []string{"RAYHISTORY_S3_BUCKET="}, change: func(*config) {}},
		"alias": {args: []string{"--runtime-class-name=s3"},
			change: func(c *config) { c.backend = "s3" }},
		"alias over environment": {args: []string{"--runtime-class-name=s3"}, env: []string{"STORAGE_BACKEND=gcs"},
			change: func(c *config) { c.backend = "s3" }},
		"boolean alias": {args: []string{"--s3-tls=false"}, change: func(c *config) { c.ssl = false }},
		"alias's variable": {env: []string{"RAYHISTORY_RUNTIME_CLASS_NAME=s3"},
			change: func(c *config) { c.backend = "s3" }},
		"spellings agree": {args: []string{"--s3-ssl=1", "--s3-tls=true"}, change: func(*config) {}},
		"spellings contradict": {args: []string{"--runtime-class-name=s3", "--storage-backend=gcs"},
			err: `--storage-backend="gcs" contradicts --runtime-class-name="s3"`},
		"variables contradict": {env: []string{"S3_BUCKET=a", "RAYHISTORY_S3_BUCKET=b"}, err: "S3_BUCKET"},
		"secrets contradict unshown": {env: []string{"AWS_S3SECRET=hush", "OTHER_SECRET=quiet"},
			err: "environment variable AWS_S3SECRET contradicts OTHER_SECRET"},
		"file contradicts itself": {file: `{"s3Bucket":"c","s3-bucket":"d"}`, err: "contradicts"},
		"unknown variable": {env: []string{"RAYHISTORY_PUSH_INTERVALL=3s"},
			err: "RAYHISTORY_PUSH_INTERVALL"},
		"variables of a service": {env: []string{"RAYHISTORY_SERVICE_HOST=10.0.0.1",
			"RAYHISTORY_PORT=tcp://10.0.0.1:80", "RAYHISTORY_HS_PORT_80_TCP_ADDR=10.0.0.1",
			"RAYHISTORY_SERVICE_PORT_HTTP=80"}, change: func(*config) {}},
		"a service with the name of a setting": {env: []string{"EVENTS_PORT=tcp://10.0.0.1:80",
			"RAYHISTORY_EVENTS_PORT=udp://[fd00::1]:53", "RAYHISTORY_S3_BUCKET=a_PORT=tcp://"},
			change: func(c *config) { c.bucket = "a_PORT=tcp://" }},
		"port":                                   {env: []string{"EVENTS_PORT=81"}, change: func(c *config) { c.port = 81 }},
		"variable of another command":            {env: []string{"RAYHISTORY_ELSEWHERE=1"}, change: func(*config) {}},
		"setting of another command in the file": {file: `{"elsewhere":"1"}`, change: func(*config) {}},
		"a typo in a variable that ends as a service's": {env: []string{"RAYHISTORY_EVENT_PORT=9000"},
			err: "RAYHISTORY_EVENT_PORT"},
		"a line break at the end": {env: []string{"S3_BUCKET=b\r\n"}, change: func(c *config) { c.bucket = "b" }},
		"white space around strings": {args: []string{"--s3-bucket= b\n", "--storage-backend=\ts3 "},
			env: []string{"AWS_S3SECRET=hush \n"}, file: `{"s3Bucket":"c"}`,
			change: func(c *config) { c.bucket, c.backend, c.key = "b", "s3", "hush" }},
		"blanks in a list": {args: []string{"--hosts=a, b,,c "},
			change: func(c *config) { c.hosts = []string{"a", "b", "c"} }},
		"lines of a list": {env: []string{"RAYHISTORY_HOSTS=a\n b\n", "RAYHISTORY_LABELS=a=1\r\nb=2\n"},
			change: func(c *config) { c.hosts, c.labels = []string{"a", "b"}, map[string]string{"a": "1", "b": "2"} }},
		"bad variable": {env: []string{"RAYHISTORY_PUSH_INTERVAL=often"},
			err: "environment variable RAYHISTORY_PUSH_INTERVAL"},
		"unknown in file":     {file: `{"s3bucket":"c"}`, err: `as "s3Bucket" (did you mean s3Bucket?`},
		"bad value in file":   {file: `{"push-interval":"often"}`, err: "push-interval"},
		"structure in file":   {file: `{"s3Bucket":["c"]}`, err: "s3Bucket"},
		"broken file":         {file: `{"s3Bucket"`, err: "want one JSON object"},
		"two objects in file": {file: `{} {}`, err: "more data follows"},
	} {
		t.Run(name, func(t *testing.T) {
			var c config
			fs := flags(&c)
			others := pflag.NewFlagSet("other", pflag.ContinueOnError)
			others.String("elsewhere", "", "")
			args := test.args
			if test.file != "" {
				path := filepath.Join(t.TempDir(), "data")
				must.OK(t, os.WriteFile(path, []byte(test.file), 0o600))
				args = append(args, "--config-path="+path)
			}
			must.OK(t, fs.Parse(args))
			err := Load(fs, test.env, others)
			if test.err != "" {
				must.True(t, err != nil && strings.Contains(err.Error(), test.err), "got error %v, want one with %s",
					err, test.err)
				for _, secret := range []string{"hush", "quiet"} {
					says.True(t, !strings.Contains(err.Error(), secret), "the error shows a secret: %v", err)
				}
				return
			}
			must.OK(t, err)
			want := want
			test.change(&want)
			c.path = ""
			says.True(t, reflect.DeepEqual(c, want), "got %+v, want %+v", c, want)
		})
	}
}

func TestMissingFileIsAnError(t *testing.T) {
	var c config
	fs := flags(&c)
	must.OK(t, fs.Parse([]string{"--config-path=/nowhere/data"}))
	says.Error(t, Load(fs, nil), "/nowhere/data")
	byDefault := config{path: "/nowhere/data"}
	says.OK(t, Load(flags(&byDefault), nil), "the default's need not be there")
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	must.OK(t, WriteTable(&b, flags(new(config))))
	for _, line := range []string{
		"| `--s3-bucket` | `RAYHISTORY_S3_BUCKET`, `S3_BUCKET` | `s3-bucket`, `s3Bucket` | `ray-historyserver` | name of the bucket |",
		"| `--storage-backend`, `--runtime-class-name` | `RAYHISTORY_STORAGE_BACKEND`, `STORAGE_BACKEND`, `RAYHISTORY_RUNTIME_CLASS_NAME` | `storage-backend`, `runtime-class-name` | `local` | s3\\|local |",
	} {
		says.True(t, strings.Contains(b.String(), line+"\n"), "no line %s in\n%s", line, b.String())
	}
}

// TestShown: what is told to others has no secrets.
func TestShown(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"same", "proxy", "key", "none", "plain"} {
		fs.String(name, "usual", "")
	}
	Secret(fs, "key", "none")
	must.OK(t, fs.Parse([]string{"--same=usual", "--proxy=http://me:hush@p:1/x", "--key=hush", "--none=",
		"--plain=a b"}))
	const want = "--key=(a secret)\n--none=\n--plain=a b\n--proxy=http://me:xxxxx@p:1/x\n"
	says.Equal(t, Shown(fs), want)
}

// TestFlagError: an unknown flag is told with one that it is like, but not with one that --help does not show.
func TestFlagError(t *testing.T) {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.String("log-compression", "", "")
	fs.String("log-batching", "", "no effect")
	fs.Lookup("log-batching").Hidden = true
	for args, want := range map[string]string{
		"--log-compresion=zstd": "unknown flag: --log-compresion (did you mean --log-compression?); `x --help` lists the flags",
		"--log-batchin=1":       "unknown flag: --log-batchin; `x --help` lists the flags",
	} {
		says.Equal(t, FlagError(fs.Parse([]string{args}), fs, "x").Error(), want)
	}
}

func TestBytes(t *testing.T) {
	for in, want := range map[string]Bytes{
		"1": 1, "1048576": 1 << 20, "512MiB": 512 << 20, "2Gi": 2 << 30, " 1.5 GB ": 15e8, "64k": 64e3, "10b": 10,
		"0.5KiB": 512,
	} {
		var b Bytes
		err := b.Set(in)
		says.True(t, err == nil && b == want, "%q is %d, %v; want %d", in, b, err, want)
		var again Bytes
		err = again.Set(b.String())
		says.True(t, err == nil && again == b, "%q printed as %q and read again is %d, %v", in, b.String(), again, err)
	}
	for _, in := range []string{"", "0", "-1", "MiB", "12X", "1e30", "NaN", "0.1"} {
		if b := Bytes(7); b.Set(in) == nil || b != 7 {
			t.Errorf("%q is %d, want an error and no change", in, b)
		}
	}
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"30d": 30 * day, "2w": 14 * day, "1w3d12h": 10*day + 12*time.Hour, "1.5d": 36 * time.Hour,
		"720h": 720 * time.Hour, "90s": 90 * time.Second, "0": 0, "10m0s": 10 * time.Minute,
		"-1d": -day,
	} {
		var d time.Duration
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		DurationVar(fs, &d, "age", time.Hour, "how old")
		err := fs.Set("age", text)
		says.True(t, err == nil && d == want, "%s is %s (%v), want %s", text, d, err, want)
		var again time.Duration
		err = (*Duration)(&again).Set(fs.Lookup("age").Value.String())
		says.True(t, err == nil && again == want, "%s is written %s", text, fs.Lookup("age").Value)
	}
	for d, want := range map[time.Duration]string{30 * day: "30d", 10 * time.Minute: "10m", 36 * time.Hour: "36h",
		0: "0s", 90 * time.Second: "1m30s"} {
		says.Equal(t, (*Duration)(&d).String(), want, "%d ns are written", d)
	}
	for _, text := range []string{"", "d", "30", "1y", "3 d", "1e9w", "NaNd", "99999999999999w"} {
		var d Duration
		says.True(t, d.Set(text) != nil, "%q is taken for %s", text, time.Duration(d))
	}
}
