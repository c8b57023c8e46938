package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// settings are how an image's program is run.
type settings = v1.Config

// refName is the annotation with a layout's reference.
const refName = "org.opencontainers.image.ref.name"

// image makes the image of one platform from folders, a layer each.
func (r *release) image(roots []string, set settings, arch string) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, root := range roots {
		var packed bytes.Buffer
		if err := r.tar(&packed, root, ""); err != nil {
			return nil, err
		}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
		layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
			tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		if image, err = mutate.AppendLayers(image, layer); err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config, config.Created = "linux", arch, set, v1.Time{Time: r.time}
	for i := range config.History {
		config.History[i].Created = config.Created
	}
	return mutate.ConfigFile(image, config)
}

// artifact is one file in the form of an image: config's type says what it is, such as a chart. An SBOM is about a
// subject.
type artifact struct {
	config, manifest []byte
	file             v1.Layer
}

func newArtifact(configType, fileType types.MediaType, config, file []byte, subject *v1.Descriptor) (v1.Image, error) {
	a := artifact{config: config, file: static.NewLayer(file, fileType)}
	content, err := partial.Descriptor(a.file)
	if err != nil {
		return nil, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Subject: subject, Layers: []v1.Descriptor{*content},
		Config: v1.Descriptor{MediaType: configType, Digest: digest, Size: size},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

func (artifact) MediaType() (types.MediaType, error)                      { return types.OCIManifestSchema1, nil }
func (a artifact) RawConfigFile() ([]byte, error)                         { return a.config, nil }
func (a artifact) RawManifest() ([]byte, error)                           { return a.manifest, nil }
func (a artifact) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return a.file, nil }

// write makes the layout of an image: by the release's name, and what is about it.
func (r *release) write(name, reference string, of partial.WithRawManifest, about ...v1.Image) error {
	dir, err := layout.Write(filepath.Join(r.dir, "images", name), empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{refName: reference})
	switch of := of.(type) {
	case v1.ImageIndex:
		err = dir.AppendIndex(of, named)
	case v1.Image:
		err = dir.AppendImage(of, named)
	}
	for _, image := range about {
		if err == nil {
			err = dir.AppendImage(image)
		}
	}
	return err
}

// tar packs a folder's files below prefix, owned by root, all of the release's time, in the order of their names.
func (r *release) tar(to io.Writer, root, prefix string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a folder", path)
		}
		mode, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		// No more than this: nothing of who made it and when.
		header := &tar.Header{Typeflag: mode.Typeflag, Name: prefix + name, Mode: mode.Mode, Size: mode.Size,
			ModTime: r.time}
		if info.IsDir() {
			header.Name += "/"
		}
		if err := w.WriteHeader(header); err != nil || info.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		_, err = io.Copy(w, file)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
