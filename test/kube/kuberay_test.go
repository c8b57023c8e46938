package kube_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// alone runs a command as in a pod of its own: no network but loopback, so that its ports are free, a /tmp/ray of its
// own, and a settings file where KubeRay's manifests mount one, if there is one.
const alone = `ip link set lo up && mkdir -p /tmp/ray && mount --bind "$0" /tmp/ray && if [ -n "$CONFIG" ]; then
	mount -t tmpfs tmpfs /var && mkdir /var/collector-config && printf %s "$CONFIG" >/var/collector-config/data && unset CONFIG
fi && exec "$@"`

// The binaries with the settings of KubeRay's manifests: they start, serve and end. Their stores are out of reach,
// which stops neither.
func TestKubeRaysManifestsWork(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/kuberay.yaml"))(t)
	var containers []struct {
		Manifest string
		Command  []string
		Env      map[string]string
		Config   string // of /var/collector-config/data
	}
	must.OK(t, yaml.Unmarshal(data, &containers))
	for _, c := range containers {
		t.Run(c.Manifest, func(t *testing.T) {
			t.Parallel()
			env := []string{"PATH=" + os.Getenv("PATH"), "CONFIG=" + c.Config}
			for k, v := range c.Env {
				env = append(env, k+"="+v)
			}
			p := &process{cmd: exec.Command("unshare",
				append([]string{"--mount", "--net", "bash", "-c", alone, t.TempDir(), binary(t, c.Command[0])},
					c.Command[1:]...)...)}
			p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = env, &p.log, &p.log, t.TempDir()
			must.OK(t, p.cmd.Start())
			t.Cleanup(func() {
				p.kill()
				if t.Failed() {
					t.Log(p.log.String())
				}
			})
			port := map[string]int{"collector": 8084, "historyserver": 8080}[c.Command[0]]
			lab.Eventually(t, "it serves", func() bool {
				out, err := exec.Command("nsenter", "-t", fmt.Sprint(p.cmd.Process.Pid), "-n", "curl", "-s",
					fmt.Sprintf("http://127.0.0.1:%d/healthz", port)).Output()
				return err == nil && string(out) == "ok\n"
			})
			if code := p.stop(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}
