package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/sassoftware/go-rpmutils"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
	"github.com/rayhistory/historyserver/internal/testkit/must"
)

const (
	version      = "v0.9.0-rc.1"
	maxCollector = 30 << 20 // bytes of the collector's image, as unpacked
)

// TestRelease makes a release and pushes it to a registry that runs here; then it is used as its users do.
func TestRelease(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("images are run by chroot: needs root")
	}
	t.Chdir("../..")
	silent := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), silent))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	dir := filepath.Join(t.TempDir(), "release")
	r := release{version: version, registry: host + "/ray", programs: programs, archs: archs,
		dashboards: "build/dashboard"}
	must.OK(t, r.make(dir))
	t.Run("sums", func(t *testing.T) {
		output(t, "sh", "-c", `cd "$0" && sha256sum --quiet -c SHA256SUMS`, dir)
	})
	t.Run("binaries", func(t *testing.T) { checkBinaries(t, dir) })
	t.Run("images", func(t *testing.T) { checkImages(t, r.registry) })
	t.Run("packages", func(t *testing.T) { checkPackages(t, dir) })
	t.Run("chart", func(t *testing.T) { checkChart(t, r.registry) })
	t.Run("changes", func(t *testing.T) {
		changes := read(t, dir+"/CHANGES.md")
		if !strings.HasPrefix(changes, "# "+version+"\n\n## ") || !strings.Contains(changes, "\n- ") {
			t.Errorf("changes:\n%.300s", changes)
		}
	})
	t.Run("again", func(t *testing.T) {
		again := filepath.Join(t.TempDir(), "release")
		must.OK(t, r.make(again))
		if out, err := exec.Command("diff", dir+"/SHA256SUMS", again+"/SHA256SUMS").CombinedOutput(); err != nil {
			t.Errorf("the same input has other files:\n%s", out)
		}
	})
}

// Binaries are static, and of the platform that their name says.
func checkBinaries(t *testing.T, dir string) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		for _, program := range programs {
			file := must.Get(elf.Open(fmt.Sprintf("%s/%s_%s_linux_%s", dir, program, version, arch)))(t)
			dynamic := slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
			if file.Machine != machine || dynamic {
				t.Errorf("%s for %s: %v, dynamic: %v", program, arch, file.Machine, dynamic)
			}
			_ = file.Close()
		}
	}
}

// Images are pulled and unpacked. Each program runs alone in its image's files, as the image's user: the collector
// stores a session, and the server shows it.
func checkImages(t *testing.T, registry string) {
	files := []string{"etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"}
	collector, config := pull(t, registry+"/collector", v1.Config{
		User: "65532:65532", Env: []string{"PATH=/usr/local/bin"}, Entrypoint: []string{"/usr/local/bin/collector"},
		ExposedPorts: map[string]struct{}{"8085/tcp": {}},
	}, append(files, "usr/local/bin/collector"))
	var size int64
	for _, entry := range tree(t, collector) {
		size += entry.size
	}
	if size > maxCollector {
		t.Errorf("the collector's image has %d bytes, more than %d", size, maxCollector)
	}
	const cluster, session = "lab", "session_2026-11-26_03-00-00_123456_77"
	logs := filepath.Join(collector, "tmp/ray", session, "logs")
	must.OK(t, os.MkdirAll(logs, 0o777))
	node := strings.Repeat("5a", 28)
	for path, content := range map[string]string{
		logs + "/raylet.out": "a line of the raylet\n", filepath.Dir(logs) + "/metrics_agent_port_" + node: "44217",
	} {
		must.OK(t, os.WriteFile(path, []byte(content), 0o644))
	}
	output(t, "ln", "-s", session, filepath.Join(collector, "tmp/ray/session_latest"))
	output(t, "chown", "-R", config.User, filepath.Join(collector, "tmp/ray"))
	store := filepath.Join(collector, "tmp/data")
	address, stop := start(t, collector, config, `collecting.* metrics="([^"]+)"`,
		"RAYHISTORY_RAY_CLUSTER_NAME="+cluster, "RAYHISTORY_ROLE=head", "RAYHISTORY_LOCAL_DIR=/tmp/data",
		"RAYHISTORY_METRICS_ADDRESS=localhost", "RAYHISTORY_METRICS_PORT=0", "RAYHISTORY_EVENTS_PORT=0",
		"RAYHISTORY_RAY_DASHBOARD_ADDRESS=", "RAYHISTORY_PUSH_INTERVAL=1s")
	get(t, address, "/readyz", "")
	stop()
	stored := filepath.Join(store, "log", cluster+"_default", session, "logs", node, "raylet.out")
	if got := read(t, stored); got != "a line of the raylet\n" {
		t.Errorf("stored %q", got)
	}

	history, config := pull(t, registry+"/historyserver", v1.Config{
		User: "65532:65532", Env: []string{"PATH=/usr/local/bin", "RAYHISTORY_DASHBOARD_DIR=/dashboard"},
		Entrypoint: []string{"/usr/local/bin/historyserver"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}},
	}, append(files, "usr/local/bin/historyserver", "dashboard/v2.55.1/index.html", "dashboard/v2.60.0/index.html"))
	must.OK(t, os.Rename(store, filepath.Join(history, "tmp/data")))
	address, stop = start(t, history, config, `serving.* address="([^"]+)"`,
		"RAYHISTORY_LISTEN=127.0.0.1:0", "RAYHISTORY_LOCAL_DIR=/tmp/data")
	defer stop()
	get(t, address, "/readyz", "")
	get(t, address, "/clusters", session)
	at := "/namespaces/default/clusters/" + cluster + "/sessions/" + session
	get(t, address, at+"/", "<script") // the Ray Dashboard's page
	get(t, address, at+"/api/v0/logs?node_id="+node, "raylet.out")
}

// pull unpacks a version's image for this platform, compares its settings and files, which but for dashboards are all
// that it may have, and reads its SBOM.
func pull(t *testing.T, repository string, want v1.Config, files []string) (root string, config v1.Config) {
	t.Helper()
	repo := must.Get(name.NewRepository(repository))(t)
	image := must.Get(remote.Image(repo.Tag(version),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})))(t)
	file := must.Get(image.ConfigFile())(t)
	got, _ := json.Marshal(file.Config)
	if wanted, _ := json.Marshal(want); !bytes.Equal(got, wanted) {
		t.Errorf("%s is run by %s, want %s", repository, got, wanted)
	}
	root = t.TempDir()
	unpack := exec.Command("tar", "-x", "-p", "--same-owner", "-C", root)
	unpack.Stdin = mutate.Extract(image)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", repository, err, out)
	}
	have := tree(t, root)
	for _, path := range files {
		if _, ok := have[path]; !ok {
			t.Errorf("%s has no %s", repository, path)
		}
	}
	for path := range have {
		if !slices.Contains(files, path) && !strings.HasPrefix(path, "dashboard/v2.") {
			t.Errorf("%s has %s", repository, path)
		}
	}
	if info, err := os.Stat(root + "/tmp"); err != nil || info.Mode().Perm() != 0o777 ||
		info.Mode()&fs.ModeSticky == 0 {
		t.Errorf("%s: /tmp: %v, %v", repository, info, err)
	}

	digest := must.Get(image.Digest())(t)
	about := must.Get(remote.Referrers(repo.Digest(digest.String())))(t)
	manifest, err := about.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].ArtifactType != sbomType {
		t.Fatalf("about %s: %+v, %v", repository, manifest, err)
	}
	sbom := onlyFile(t, repo.Digest(manifest.Manifests[0].Digest.String()))
	if !bytes.Contains(sbom, []byte(`"purl": "pkg:golang/github.com/aws/`)) {
		t.Errorf("SBOM of %s: %.500s", repository, sbom)
	}
	return root, file.Config
}

// onlyFile is an artifact's only file.
func onlyFile(t *testing.T, ref name.Reference) []byte {
	t.Helper()
	image := must.Get(remote.Image(ref))(t)
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%s: %d layers, %v", ref, len(layers), err)
	}
	content := must.Get(layers[0].Compressed())(t)
	data := must.Get(io.ReadAll(content))(t)
	return data
}

// start runs an image and returns the address that its log tells.
func start(t *testing.T, root string, config v1.Config, told string, env ...string) (address string, stop func()) {
	t.Helper()
	var uid, gid uint32
	must.Get(fmt.Sscanf(config.User, "%d:%d", &uid, &gid))(t)
	cmd := exec.CommandContext(t.Context(), config.Entrypoint[0])
	cmd.Env, cmd.Dir = append(slices.Clone(config.Env), env...), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	stderr := must.Get(cmd.StderrPipe())(t)
	must.OK(t, cmd.Start())
	var said []string
	ended := make(chan struct{})
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", cmd.Path, err, strings.Join(said, "\n"))
		}
	}
	addresses := make(chan string, 1)
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			said = append(said, lines.Text())
			if found := regexp.MustCompile(told).FindStringSubmatch(lines.Text()); found != nil {
				addresses <- found[1]
			}
		}
	}()
	select {
	case address = <-addresses:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s tells no address", cmd.Path)
	}
	return address, stop
}

// get asks until the answer is 200 and contains what is wanted.
func get(t *testing.T, address, path, want string) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		response, err := http.Get("http://" + address + path)
		if err == nil {
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK && strings.Contains(string(body), want) {
				return
			}
			err = fmt.Errorf("%s: %.500s", response.Status, body)
		}
		last = err.Error()
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s: %s, want %q", path, last, want)
}

// Packages of both forms have the same files; systemd takes the units; what may hold keys is root's alone.
func checkPackages(t *testing.T, dir string) {
	for _, p := range []struct{ program, name, unit string }{
		{"collector", "ray-history-collector", "ray-history-collector@ray.service"},
		{"historyserver", "ray-history-server", "ray-history-server.service"},
	} {
		for _, arch := range archs {
			deb := filepath.Join(t.TempDir(), "deb")
			of := fmt.Sprintf("%s/%s_0.9.0~rc.1_%s.deb", dir, p.name, arch)
			output(t, "dpkg-deb", "-R", of, deb)
			machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
			inRPM := rpmFiles(t, fmt.Sprintf("%s/%s-0.9.0~rc.1-1.%s.rpm", dir, p.name, machine))
			scripts, _ := filepath.Glob(deb + "/DEBIAN/p*")
			if len(scripts) != 2 {
				t.Errorf("%s has scripts %v", of, scripts)
			}
			for _, script := range scripts {
				output(t, "sh", "-n", script)
			}
			if about := read(t, deb+"/DEBIAN/control"); !strings.Contains(about, "Version: 0.9.0~rc.1\n") {
				t.Errorf("%s:\n%s", of, about)
			}
			must.OK(t, os.RemoveAll(deb+"/DEBIAN"))
			files := tree(t, deb)
			for path, entry := range inRPM {
				if files[path] != entry {
					t.Errorf("%s: /%s: the deb has %v, the rpm %v", p.name, path, files[path], entry)
				}
				delete(files, path)
			}
			if len(files) > 0 {
				t.Errorf("%s: only the deb has %v", p.name, files)
			}
			binary := read(t, deb+"/usr/bin/"+p.program)
			if released := read(t, fmt.Sprintf("%s/%s_%s_linux_%s", dir, p.program, version,
				arch)); binary != released {
				t.Errorf("%s has another binary than the release", p.name)
			}
			settings, err := os.Stat(deb + "/etc/ray-history/" + p.program + ".env")
			if err != nil || settings.Mode() != 0o600 {
				t.Errorf("%s: settings %v, %v", p.name, settings, err)
			}
			if _, err := exec.LookPath("systemd-analyze"); err == nil {
				const units = "/usr/lib/systemd/system/"
				output(t, "sh", "-c", `cp `+units+`*.target `+units+`*.slice "$0`+units+`"`, deb)
				output(t, "systemd-analyze", "verify", "--man=no", "--root="+deb, p.unit)
			}
			if arch == runtime.GOARCH {
				if told := output(t, deb+"/usr/bin/"+p.program, "--version"); !strings.Contains(told, version) {
					t.Errorf("%s is of version %s", p.program, told)
				}
			}
		}
	}
}

// rpmFiles lists the files of an rpm.
func rpmFiles(t *testing.T, path string) map[string]entry {
	t.Helper()
	file := must.Get(os.Open(path))(t)
	defer func() { _ = file.Close() }()
	rpm, err := rpmutils.ReadRpm(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if name, err := rpm.Header.GetNEVRA(); err != nil || name.Version != "0.9.0~rc.1" {
		t.Errorf("%s is %v, %v", path, name, err)
	}
	if err := rpm.ExpandPayload(t.TempDir()); err != nil {
		t.Errorf("%s: %v", path, err)
	}
	files := must.Get(rpm.Header.GetFiles())(t)
	found := map[string]entry{}
	for _, f := range files {
		if mode := uint32(f.Mode()); mode&syscall.S_IFMT == syscall.S_IFREG {
			found[strings.TrimPrefix(f.Name(), "/")] = entry{fs.FileMode(mode).Perm(), f.Size(), f.Digest()}
		}
	}
	return found
}

// Helm takes the chart from the registry, and the chart takes its images from there.
func checkChart(t *testing.T, registry string) {
	helm := buildcache.Helm(t)
	t.Setenv("HELM_CACHE_HOME", t.TempDir())
	objects := output(t, helm, "template", "historyserver", "oci://"+registry+"/charts/ray-history", "--plain-http",
		"--version="+strings.TrimPrefix(version, "v"), "--values=config/helm/examples/minio.yaml",
		"--set=webhook.enabled=true")
	for _, want := range []string{
		`image: "` + registry + "/historyserver:" + version + `"`,
		`RAYHISTORY_IMAGE: "` + registry + "/collector:" + version + `"`,
	} {
		if !strings.Contains(objects, want) {
			t.Errorf("the chart makes no %s", want)
		}
	}
}

type entry struct {
	mode   fs.FileMode
	size   int64
	digest string // SHA-256
}

// tree lists the files below a folder.
func tree(t *testing.T, root string) map[string]entry {
	t.Helper()
	found := map[string]entry{}
	must.OK(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found[name] = entry{info.Mode(), info.Size(), fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, path))))}
		return err
	}))
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}
