// Program release makes a version's files without a container engine, and pushes its images and chart:
//
//	config/packages, config/helm, Dockerfile.* ─► build/release ─► registry
//
// It is a module of its own beside the other tools, because no build of the product needs the libraries for registries
// and packages.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/mod/semver"
)

var (
	programs = []string{"collector", "historyserver"}
	archs    = []string{"amd64", "arm64"}
)

type release struct {
	version, registry string
	programs          []string          // those that it has, none: only the chart
	archs             []string          // processors that it is for, as Go names them
	dashboards        string            // a folder with dashboards that are there already
	args              map[string]string // for the Dockerfiles
	time              time.Time         // of the commit: what is made of it has no other time
	dir, work         string
}

func main() {
	r := release{args: map[string]string{}}
	out := flag.String("out", "build/release", "folder for the release, which is replaced")
	flag.StringVar(&r.version, "version", "", "version, such as v1.2.3")
	flag.StringVar(&r.registry, "registry", "", "registry and folder for images and chart; empty: nothing is pushed")
	flag.StringVar(&r.dashboards, "dashboards", "build/dashboard",
		"dashboards of `make dashboard`; others are downloaded")
	processors := flag.String("arch", strings.Join(archs, ","), "processors")
	onlyChart := flag.Bool("only-chart", false, "make and push the chart alone")
	flag.Parse()
	r.archs = strings.Split(*processors, ",")
	if !*onlyChart {
		r.programs = programs
	}
	for _, arg := range flag.Args() {
		variable, value, _ := strings.Cut(arg, "=")
		r.args[variable] = value
	}
	if err := r.make(*out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// make writes the release, whole or not at all, and then pushes it.
func (r *release) make(out string) (err error) {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("VERSION=%s: want a version such as v1.2.3 or v1.2.3-rc.1", r.version)
	}
	syscall.Umask(0o022) // files' modes are the same whoever makes them
	seconds, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.time = time.Unix(unix, 0).UTC()
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp(filepath.Dir(out), ".release-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	r.dir = filepath.Join(r.work, "release")
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return err
	}
	for _, program := range r.programs {
		if err := r.program(program); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
	}
	if err := r.chart(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	log, err := changelog(r.version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "CHANGES.md"), []byte(log), 0o644); err != nil {
		return err
	}
	if err := sums(r.dir); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.Rename(r.dir, out); err != nil {
		return err
	}
	fmt.Println("made", out)
	for _, name := range append([]string{"charts/ray-history"}, r.programs...) {
		if r.registry == "" {
			break
		}
		if err := push(filepath.Join(out, "images", name), r.registry+"/"+name); err != nil {
			return err
		}
		fmt.Printf("pushed %s/%s\n", r.registry, name)
	}
	return nil
}

// program makes a program's images, binaries, SBOMs and packages.
func (r *release) program(name string) error {
	file, err := readDockerfile("Dockerfile." + name)
	if err != nil {
		return err
	}
	from, set, err := file.final()
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var sboms []v1.Image
	for _, arch := range r.archs {
		roots, err := r.stages(file, name, arch)
		if err != nil {
			return err
		}
		var layers []string
		for _, stage := range from {
			layers = append(layers, roots[stage])
		}
		binary := fmt.Sprintf("%s_%s_linux_%s", name, r.version, arch)
		if err := os.Link(filepath.Join(roots["build"], "usr/local/bin", name),
			filepath.Join(r.dir, binary)); err != nil {
			return err
		}
		if err := r.packages(name, arch, roots); err != nil {
			return err
		}
		image, err := r.image(layers, set, arch)
		if err != nil {
			return err
		}
		bom, err := r.sbom(name, arch, layers)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.dir, binary+".cdx.json"), bom, 0o644); err != nil {
			return err
		}
		descriptor, err := partial.Descriptor(image)
		if err != nil {
			return err
		}
		sbom, err := newArtifact(sbomType, sbomType, []byte("{}"), bom, descriptor)
		if err != nil {
			return err
		}
		descriptor.Platform = &v1.Platform{OS: "linux", Architecture: arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: *descriptor})
		sboms = append(sboms, sbom)
	}
	return r.write(name, r.version, index, sboms...)
}

// stages runs the stages of a Dockerfile but the last, for one platform, and returns their folders. A stage that does
// not ask for the platform runs once.
func (r *release) stages(file *dockerfile, name, arch string) (roots map[string]string, err error) {
	roots = map[string]string{}
	for _, s := range file.stages[:len(file.stages)-1] {
		args := map[string]string{"VERSION": r.version, "TARGETOS": "linux", "TARGETARCH": arch}
		maps.Copy(args, r.args)
		used := variables(s, args)
		root := filepath.Join(r.work, "stages", name, s.Name+used["TARGETARCH"])
		roots[s.Name] = root
		if _, err := os.Stat(root); err == nil {
			continue
		}
		for _, version := range strings.Fields(used["RAY_VERSIONS"]) {
			dir := filepath.Join(r.dashboards, "v"+version)
			if _, err := os.Stat(dir); err != nil {
				continue // the stage downloads it
			}
			if err := os.CopyFS(filepath.Join(root, "dashboard", "v"+version), os.DirFS(dir)); err != nil {
				return nil, err
			}
		}
		if err := file.run(s, root, args); err != nil {
			return nil, err
		}
		if err := setTimes(root, r.time); err != nil {
			return nil, err
		}
	}
	return roots, nil
}

// sums writes SHA256SUMS, for `sha256sum -c`.
func sums(dir string) error {
	var out bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), name)
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), out.Bytes(), 0o644)
}
