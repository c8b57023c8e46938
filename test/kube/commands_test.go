package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/recording"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// absent are programs that the pages use and that do nothing here: clouds, container engines, job schedulers, Ray
// (whose commands test/e2e runs against a server). What is around them in a script is run, and files that they are
// given must exist.
var absent = []string{"az", "aws", "gcloud", "azcopy", "rclone", "eksctl", "kind", "sudo", "ray", "srun", "scontrol",
	"python", "pip", "setsid", "pkill", "sleep"}

// programs begin a block of a page that is a script.
var programs = append([]string{"historyserver", "collector", "build/collector", "curl", "make", "kubectl", "helm",
	"docker", "eval", "export", "#!/bin/bash", "GROUP", "BUCKET", "PROJECT", "S"}, absent...)

// block is a piece of code on a page.
type block struct {
	at   string // page and line
	text string
}

// scripts are the blocks of a page that are commands for a shell: also within lists, of examples that show what a
// command prints, and of configurations that other programs run.
func scripts(page, content string) (found []block) {
	var text []string
	fence, info, began, margin := false, "", 0, ""
	end := func() {
		script := strings.TrimRight(strings.Join(text, "\n"), "\n")
		if strings.HasPrefix(script, "$ ") {
			var commands []string
			for _, m := range typed.FindAllStringSubmatch(script, -1) {
				commands = append(commands, m[1])
			}
			script = strings.Join(commands, "\n")
		}
		if info == "yaml" {
			var run struct{ Setup, Run string }
			_ = yaml.Unmarshal([]byte(script), &run) // others have neither
			script = run.Setup + run.Run
		}
		words := strings.FieldsFunc(script, func(r rune) bool { return strings.ContainsRune(" \n=", r) })
		if len(words) > 0 && slices.Contains(programs, words[0]) &&
			slices.Contains([]string{"", "sh", "bash", "yaml"}, info) {
			found = append(found, block{fmt.Sprintf("%s:%d", page, began), script + "\n"})
		}
		text, info = nil, ""
	}
	number := 0
	for line := range strings.Lines(content) {
		number++
		line = strings.TrimSuffix(line, "\n")
		indented, inside := strings.CutPrefix(line, "    ")
		switch before, after, mark := strings.Cut(line, "```"); {
		case mark && strings.TrimSpace(before) == "":
			end()
			fence, info, margin = !fence, after, before
		case fence:
			text = append(text, strings.TrimPrefix(line, margin))
		case inside, line == "" && len(text) > 0:
			text = append(text, indented)
		case len(text) > 0:
			end()
		}
		if len(text) == 1 {
			began = number
		}
	}
	return found
}

// typed is what is typed in an example that shows what commands print.
var typed = regexp.MustCompile(`(?m)^\$ (.*)`)

// examples are the names of the pages' examples, and what there is here for each.
func examples(t *testing.T, server, data string) *strings.Replacer {
	node, task := anyTask(t, "http://"+server+latestLab)
	return strings.NewReplacer("NODE_ID", node, "TASK_ID", task,
		"https://HISTORY_SERVER", "http://"+server, "HISTORY_SERVER", server, "https://history.example.com",
		"http://"+server,
		"http://localhost:8080", "http://"+server, "http://localhost:30080", "http://"+server,
		"RAYHISTORY_SERVER", "RAYHISTORY_SERVER", "$CLUSTER", "$CLUSTER", // these are variables
		"NAMESPACE/CLUSTER", "default/lab", "OTHER/CLUSTER", "default/lab/session_2026-11-21_02-15-45_140143_14",
		"default/nightly", "default/lab", "why nightly --job driver_error", "why cases/jobs260 --job driver_error",
		"/tmp/collector.deb", "raycluster.yaml", "/tmp/collector.log", "collector.log",
		"oci://REGISTRY/charts/ray-history", "config/helm",
		"clusters/nightly", "clusters/lab", "job nightly", "job bad-env-job", "job=nightly", "job=bad-env-job",
		"submission_id=raysubmit_Zz9", "submission_id=bad-env-job", "raysubmit_Zz9", "oom_task-job",
		"raysubmit_4Xw1zYQ7ZkHZmZ2R", "oom_task-job", "CLUSTER --",
		"cases/oom_task --",
		"Task .* failed", ".", `"CUDA out of memory"`, `"a"`, "--state uncovered,silent", "--state uncovered",
		"--storage-backend=s3 …", "--local-dir="+data, "--storage-backend s3 --s3-bucket old", "--local-dir "+data,
		"--to storage-backend=gcs --to gcs-bucket=new", "--to local-dir=copied",
		"export-metrics default/lab", "export-metrics cases/more260", "session_…", "session_1",
		"oci://$REGISTRY/charts/ray-history --version 0.1.0", "config/helm",
		"oci://$REGISTRY/charts/ray-history --version 0.2.0", "config/helm",
	)
}

// latestLab is the path of the session that S stands for.
const latestLab = "/namespaces/default/clusters/lab/sessions/latest"

// anyTask finds a task that has written a log, and its node.
func anyTask(t *testing.T, session string) (node, task string) {
	t.Helper()
	var tasks struct {
		Data struct {
			Result struct {
				Result []struct {
					TaskID string `json:"task_id"`
					NodeID string `json:"node_id"`
				}
			}
		}
	}
	lab.Eventually(t, "the session's tasks are listed", func() bool {
		status, body := ask(t, session+"/api/v0/tasks?limit=1000&detail=true", "")
		return status == http.StatusOK && json.Unmarshal([]byte(body), &tasks) == nil
	})
	for _, one := range tasks.Data.Result.Result {
		if status, _ := ask(t, session+"/api/v0/logs/file?suffix=err&task_id="+one.TaskID,
			""); status == http.StatusOK {
			return one.NodeID, one.TaskID
		}
	}
	t.Fatal("no task has a log")
	return "", ""
}

// wrappers are shell scripts in place of programs, by name. They end with the exit code of what they run.
func wrappers(t *testing.T, kubeconfig string) map[string]string {
	root := must.Get(filepath.Abs(repository))(t)
	kubectl, curl := filepath.Join(lab.Bin(t), "kubectl"), must.Get(exec.LookPath("curl"))(t)
	found := map[string]string{
		"curl": curl + ` -fsS "$@"`,
		"make": `/usr/bin/make -n -C ` + root + ` "$@" >/dev/null && echo made`,
		"helm": `case "$1 $2" in
"repo add"|"install kuberay-operator") echo "KubeRay's own repository" ;; # it is elsewhere
*) exec ` + buildcache.Helm(t) + ` "$@" --kubeconfig=` + kubeconfig + ` ;;
esac`,
		"docker": `while [ "$1" != inject ]; do shift; done; exec collector "$@"`, // run … an image of the collector
		// No node runs pods: who is asked for logs must exist, and what is run in a container is a command of ours.
		"kubectl": `export KUBECONFIG=` + kubeconfig + `
case "$1" in
logs|exec|port-forward)
	case "$2" in POD) ;; *) ` + kubectl + ` get "$2" ;; esac
	while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
	[ $# = 0 ] || { shift; "$@" --help; } ;;
*) exec ` + kubectl + ` "$@" ;;
esac`,
	}
	// Files that are named in an absent program's arguments must exist.
	for _, name := range absent {
		found[name] = `for a in "$@"; do
	case "$a" in
	file://*) test -s "${a#file://}" ;;
	/tmp/*|config/*) test -s "$a" ;;
	esac || { echo "no file $a" >&2; exit 1; }
done
echo "` + name + ` $1"`
	}
	return found
}

// Every command of the pages is run: our own and those of Kubernetes and Helm for what they do.
func TestDocsCommandsRun(t *testing.T) {
	l := lab.Start(t)
	data, dir := t.TempDir(), t.TempDir()
	for _, name := range must.Get(recording.Names())(t) {
		must.OK(t, must.Get(recording.Find(name))(t).WriteStore(data))
	}
	for _, archive := range must.Get(recording.Stored())(t) {
		if slices.Contains([]string{"oom_task.tar.gz", "more-2.60.tar.gz", "jobs-2.60.tar.gz"}, filepath.Base(archive)) {
			must.OK(t, recording.Unpack(archive, data))
		}
	}
	bin := filepath.Join(dir, "build")
	must.OK(t, os.Mkdir(bin, 0o755))
	for _, name := range []string{"collector", "historyserver"} {
		must.OK(t, os.Symlink(binary(t, name), filepath.Join(bin, name)))
	}
	for name, script := range wrappers(t, l.Kubeconfig) {
		must.OK(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+script+"\n"), 0o755))
	}
	must.OK(t, os.Symlink(must.Get(filepath.Abs(filepath.Join(repository, "config")))(t), filepath.Join(dir, "config")))
	server := fmt.Sprintf("127.0.0.1:%d", freeport.Port(t))
	run(t, nil, "historyserver", "--listen="+server, "--local-dir="+data, "--live=storage",
		"--kubeconfigs="+l.Kubeconfig)
	lab.Eventually(t, "the server lists the sessions", func() bool {
		_, body := ask(t, "http://"+server+"/clusters", "")
		return strings.Contains(body, "oom_task")
	})
	for _, namespace := range []string{"team-a", "ray-history"} {
		l.Kubectl(t, "", "create", "namespace", namespace)
	}

	pages := files(t, "README.md", "CONTRIBUTING.md", "docs/*.md", "docs/kubernetes/*.md", "config/helm/*.md")
	ran, names := 0, examples(t, server, data)
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		for _, b := range scripts(page, pages[page]) {
			ran++
			t.Run(strings.ReplaceAll(b.at, "/", "-"), func(t *testing.T) {
				// The pages' releases have one name, and are upgraded where they were installed.
				_, _ = l.Try(t, "", "delete", "rolebinding", "-n", "team-a", "ray-viewer")
				if !strings.Contains(b.text, "helm upgrade") {
					_ = exec.Command(buildcache.Helm(t), "uninstall", "historyserver", "--wait=false",
						"--ignore-not-found",
						"--kubeconfig="+l.Kubeconfig).Run()
				} else if out := l.Helm(t, "list", "-q"); !strings.Contains(out, "historyserver") {
					l.Helm(t, "install", "historyserver", chart, example("minio"))
				}
				runScript(t, dir, data, server, names.Replace(b.text))
			})
		}
	}
	if ran < 25 {
		t.Errorf("only %d blocks of commands were found", ran)
	}
}

// serverCommand is the server itself, which runs until it is stopped.
var serverCommand = regexp.MustCompile(`(?m)^historyserver --local-dir.*`)

// runScript runs a page's block as a user does who has the examples' names and files.
func runScript(t *testing.T, dir, data, server, text string) {
	t.Helper()
	sample := must.Get(os.ReadFile(filepath.Join(repository, "config/samples/raycluster.yaml")))(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "raycluster.yaml"), sample, 0o600))
	text = serverCommand.ReplaceAllString(text,
		"timeout --preserve-status --signal=TERM 5 $0 --listen=127.0.0.1:0 || [ $$? = 143 ]")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "build")+":"+os.Getenv("PATH"),
		"RAYHISTORY_LOCAL_DIR="+data, "HOME="+dir, "S=http://"+server+latestLab,
		"REGISTRY=registry.example.com/ray", "BUCKET=my-ray-history", "SAS=sv=1",
		"SKYPILOT_NODE_IPS=a\nb", "SKYPILOT_NODE_RANK=0", "SLURM_JOB_ID=7", "SLURM_JOB_NAME=train", "SLURM_JOB_NODELIST=a,b", "SLURM_JOB_NUM_NODES=2")
	out, err := cmd.CombinedOutput()
	if err != nil || len(strings.TrimSpace(string(out))) == 0 && !strings.Contains(text, ">") &&
		!strings.Contains(text, " -o") {
		t.Errorf("%s\n%v\n%.3000s", text, err, out)
	}
}
