package main

import (
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push sends a layout to its repository of the registry: first what is about the image, so that nobody pulls an image
// without its SBOM. Credentials are those of `docker login` or `helm registry login`.
func push(dir, repository string) error {
	repo, err := name.NewRepository(repository)
	if err != nil {
		return err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	contents, err := partial.Manifests(index)
	if err != nil {
		return err
	}
	for i := len(contents) - 1; i >= 0; i-- {
		var to name.Reference = repo.Digest(list.Manifests[i].Digest.String())
		if tag := list.Manifests[i].Annotations[refName]; tag != "" {
			to = repo.Tag(tag)
		}
		err := remote.Push(to, contents[i].(remote.Taggable), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return fmt.Errorf("push %s: %w", to, err)
		}
	}
	return nil
}
