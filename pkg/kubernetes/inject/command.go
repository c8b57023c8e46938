package inject

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// CheckCollector checks settings as the collector itself does: its arguments and environment. complete says that no
// others follow when it runs.
type CheckCollector func(args, environ []string, complete bool) error

// NewCommand is `collector inject`. backends are the names of the collector's storage backends.
func NewCommand(backends []string, check CheckCollector) *cobra.Command {
	o := Default()
	o.Backends = backends
	var file, output string
	cmd := &cobra.Command{
		Use:   "inject -f FILE [-o FILE]",
		Short: "Add the collector to a RayCluster, RayJob, RayService or RayCronJob manifest",
		Long: `Adds the collector to every RayCluster, RayJob, RayService and RayCronJob in a YAML (or JSON) file: the sidecar in the head's and
every worker group's pods, the volume it shares with Ray, and the environment that makes Ray export its events.
Everything else in the file stays as it is, comments included, and so does a file without such objects. A pod that has a container named
` + containerName + ` is left alone.

Where Ray keeps its files and serves its dashboard comes from rayStartParams, the Ray container's variables, command and volumes. What cannot be
read, such as a script or a variable of a Secret, is a warning: then set --ray-tmp-dir and --ray-dashboard-address.`,
		Example: `  collector inject -f raycluster.yaml --storage-backend=s3 --env S3_BUCKET=ray-history --service-account=ray | kubectl apply -f -
  kubectl get raycluster lab -o yaml | collector inject -f - --storage-backend=gcs --env GCS_BUCKET=ray-history`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			if err := check(o.collectorArgs(), o.Env, o.Complete()); err != nil {
				return fmt.Errorf("no collector could use these settings: %w", err)
			}
			in, err := read(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			out, changes, err := Manifest(in, o)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if len(changes) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(),
					"%s: no RayCluster, RayJob, RayService or RayCronJob in it, nothing is added\n", file)
			}
			report(cmd.ErrOrStderr(), changes)
			return write(cmd.OutOrStdout(), output, out)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "manifest to read; - for standard input")
	cmd.Flags().StringVarP(&output, "output", "o", "-",
		"file to write; - for standard output; the input's name changes it in place")
	o.AddFlags(cmd.Flags())
	return cmd
}

func read(stdin io.Reader, file string) ([]byte, error) {
	switch file {
	case "":
		return nil, errors.New("-f is not set: name a manifest, or - for standard input")
	case "-":
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// write replaces the file completely or not at all.
func write(stdout io.Writer, file string, data []byte) error {
	if file == "-" {
		_, err := stdout.Write(data)
		return err
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		mode = info.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".inject-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if _, err = tmp.Write(data); err == nil {
		err = tmp.Chmod(mode)
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(tmp.Name(), file)
}

func report(w io.Writer, changes []Change) {
	for _, c := range changes {
		for _, done := range c.Done {
			fmt.Fprintf(w, "%s: %s\n", c, done)
		}
		if len(c.Done) == 0 && len(c.Warnings) == 0 {
			fmt.Fprintf(w, "%s: has its collector already\n", c)
		}
		for _, warning := range c.Warnings {
			fmt.Fprintf(w, "%s: WARNING: %s\n", c, warning)
		}
	}
}
