package main

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes the deb and the rpm that config/packages describes, of the files of an image.
func (r *release) packages(name, arch string, roots map[string]string) error {
	variables := map[string]string{
		"VERSION": r.version, "ARCH": arch, "ROOT": roots["build"],
		"DASHBOARD": filepath.Join(roots["dashboard"], "dashboard"),
	}
	config, err := nfpm.ParseFileWithEnvMapping(filepath.Join("config/packages", name, "package.yaml"),
		func(name string) string { return variables[name] })
	if err != nil {
		return err
	}
	if config.Contents, err = expand(config.Contents); err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		info, err := config.Get(format)
		if err != nil {
			return err
		}
		info.MTime = r.time
		info = nfpm.WithDefaults(info)
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		file, err := os.Create(filepath.Join(r.dir, packager.ConventionalFileName(info)))
		if err != nil {
			return err
		}
		if err := packager.Package(info, file); err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return nil
}

// expand lists what is in trees. nfpm does that too, but gives folders of rpms modes with Go's bits, which readers of
// archives refuse.
func expand(contents files.Contents) (all files.Contents, err error) {
	for _, c := range contents {
		if c.Type != files.TypeTree {
			all = append(all, c)
			continue
		}
		err = filepath.WalkDir(c.Source, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(c.Source, path)
			one := &files.Content{Destination: filepath.Join(c.Destination, name), FileInfo: &files.ContentFileInfo{}}
			if entry.IsDir() {
				one.Type, one.FileInfo.Mode = files.TypeDir, 0o755
			} else {
				one.Source, one.FileInfo.Mode = path, 0o644
			}
			all = append(all, one)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
