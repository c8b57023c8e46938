package main

import (
	"bytes"
	"debug/buildinfo"
	"path/filepath"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

const sbomType = "application/vnd.cyclonedx+json"

// sbom lists what an image's files are made of, in CycloneDX's form: the Go modules that the binary says it was built
// from, and Ray's wheels, out of which the dashboards are.
func (r *release) sbom(name, arch string, roots []string) ([]byte, error) {
	bom := cyclonedx.NewBOM()
	components := []cyclonedx.Component{}
	library := func(purlType, name, version string) {
		components = append(components, cyclonedx.Component{
			BOMRef: "pkg:" + purlType + "/" + name + "@" + version, Type: cyclonedx.ComponentTypeLibrary,
			Name: name, Version: version, PackageURL: "pkg:" + purlType + "/" + name + "@" + version,
		})
	}
	for _, root := range roots {
		binaries, _ := filepath.Glob(filepath.Join(root, "usr/local/bin/*"))
		for _, binary := range binaries {
			info, err := buildinfo.ReadFile(binary)
			if err != nil {
				return nil, err
			}
			library("golang", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
			for _, module := range info.Deps {
				library("golang", module.Path, module.Version)
			}
		}
		dashboards, _ := filepath.Glob(filepath.Join(root, "dashboard/v*"))
		for _, dir := range dashboards {
			library("pypi", "ray", strings.TrimPrefix(filepath.Base(dir), "v"))
		}
	}
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeContainer, Name: name, Version: r.version,
			Properties: &[]cyclonedx.Property{{Name: "platform", Value: "linux/" + arch}},
		},
	}
	bom.Components = &components
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true)
	err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	return out.Bytes(), err
}
