package backend

import (
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/pkg/settings"
)

func load(t *testing.T, args, env []string) (Config, error) {
	t.Helper()
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	return c, settings.Load(fs, env)
}

func TestKubeRaySpellings(t *testing.T) {
	for _, args := range [][]string{
		{"--storage-backend=LocalTest", "--storage-root-dir=/history/"},
		{"--runtime-class-name=LocalTest", "--ray-root-dir=history"},
	} {
		c, err := load(t, args, nil)
		if err != nil || c.Backend != "LocalTest" || c.Root != "history" {
			t.Errorf("%q: %+v, %v", args, c, err)
		}
	}
	c, err := load(t, nil, []string{"STORAGE_BACKEND=localtest", "RAY_ROOT_DIR=a/b"})
	if err != nil || c.Backend != "localtest" || c.Root != "a/b" {
		t.Errorf("from the environment: %+v, %v", c, err)
	}
	if c, err := load(t, []string{"--ray-root-dir="}, nil); err != nil || c.Root != "log" {
		t.Errorf("without a root: %+v, %v", c, err)
	}
	if _, err := load(t, []string{"--ray-root-dir=../x"}, nil); err == nil {
		t.Error("a root above the bucket is accepted")
	}
}

func TestOpen(t *testing.T) {
	c, err := load(t, []string{"--local-dir", t.TempDir(), "--storage-backend=LOCAL"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c, logrus.New()); err != nil {
		t.Error(err)
	}
	c.Backend = "ftp"
	if _, err := Open(t.Context(), c, logrus.New()); err == nil || !strings.Contains(err.Error(), `"ftp": want one of`) {
		t.Errorf("unknown backend: %v", err)
	}
}
