package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// chart writes the chart of the release: as a file for `helm install`, and as the artifact that Helm pulls from
// registries. Its images are those of the registry, if there is one.
func (r *release) chart() error {
	dir := filepath.Join(r.work, "chart")
	if err := os.CopyFS(dir, os.DirFS("config/helm")); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, "values_test.go")); err != nil {
		return err
	}
	version := strings.TrimPrefix(r.version, "v")
	for _, change := range [][3]string{
		{"Chart.yaml", "version: ", version}, {"Chart.yaml", "appVersion: ", r.version},
		{"values.yaml", "  imageRegistry: ", strconv.Quote(r.registry)},
	} {
		if err := replaceLine(filepath.Join(dir, change[0]), change[1], change[2]); err != nil {
			return err
		}
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if err := r.tar(zip, dir, "ray-history/"); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, "ray-history-"+version+".tgz"), packed.Bytes(), 0o644); err != nil {
		return err
	}
	about, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return err
	}
	// The types are Helm's: https://helm.sh/docs/topics/registries
	config, err := yaml.YAMLToJSON(about)
	if err != nil {
		return err
	}
	const configType, fileType = "application/vnd.cncf.helm.config.v1+json",
		"application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	image, err := newArtifact(configType, fileType, config, packed.Bytes(), nil)
	if err != nil {
		return err
	}
	return r.write("charts/ray-history", version, image)
}

// replaceLine gives the one line that begins with key another value.
func replaceLine(path, key, value string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines, found := strings.Split(string(data), "\n"), 0
	for i, line := range lines {
		if strings.HasPrefix(line, key) {
			lines[i] = key + value
			found++
		}
	}
	if found != 1 {
		return fmt.Errorf("%s has %d lines that begin with %q: want one", path, found, key)
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}
