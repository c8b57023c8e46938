package inject

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rayhistory/historyserver/internal/settings"
)

// CheckCollector checks settings as the collector itself does: its arguments and environment. complete says that no
// others follow when it runs.
type CheckCollector func(args, environ []string, complete bool) error

// NewCommand returns the command `collector inject`. backends are the names of the collector's storage backends; check
// returns an error if a collector could not use the settings.
func NewCommand(backends []string, check CheckCollector) *cobra.Command {
	o := Default()
	o.Backends = backends
	var file, output string
	var diff bool
	cmd := &cobra.Command{
		Use:   "inject -f FILE|FOLDER [-o FILE|FOLDER]",
		Short: "Add the collector to RayCluster, RayJob, RayService and RayCronJob manifests",
		Long: `Adds the collector to every RayCluster, RayJob, RayService and RayCronJob in a YAML (or JSON) file, or in all such files of a folder: the
sidecar in the head's and every worker group's pods, the volume it shares with Ray, and the environment that makes Ray export its events.
Everything else in the file stays as it is, comments included, and so does a file without such objects. A pod that has a container named
` + containerName + ` is left alone.

Where Ray keeps its files and serves its dashboard comes from rayStartParams, the Ray container's variables, command and volumes. What cannot be
read, such as a script or a variable of a Secret, is a warning: then set --ray-tmp-dir and --ray-dashboard-address.

It is a KRM function too: with -f - it takes kustomize's ResourceList and gives it back. The data of its functionConfig are flags, such as
storage-backend: s3; those of the command line come first.`,
		Example: `  collector inject -f raycluster.yaml --storage-backend=s3 --env S3_BUCKET=ray-history --service-account=ray | kubectl apply -f -
  kubectl get raycluster lab -o yaml | collector inject -f - --storage-backend=gcs --env GCS_BUCKET=ray-history
  collector inject -f manifests/ --diff --env-from-configmap=ray-history-storage     # with -o manifests/ instead of --diff it changes the files`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files, err := readManifests(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			if file == "-" { // settings may be in it
				if err := setByFunction(cmd.Flags(), files[0].data); err != nil {
					return settings.UsageError(err)
				}
			}
			if err := o.Check(); err != nil {
				return settings.UsageError(err)
			}
			if err := check(o.collectorArgs(), o.Env, o.Complete()); err != nil {
				return settings.UsageError(fmt.Errorf("no collector could use these settings: %w", err))
			}
			if diff && output != "-" {
				return settings.UsageError(errors.New("--diff contradicts -o: nothing is written, only shown"))
			}
			changed, err := injectAll(cmd.ErrOrStderr(), files, o)
			switch {
			case err != nil:
				return err
			case diff:
				return writeDiff(cmd.OutOrStdout(), files, changed)
			}
			return writeManifests(cmd.OutOrStdout(), file, output, changed)
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "",
		"manifest to read, or a folder whose .yaml, .yml and .json files are "+
			"read, also in folders below; - for standard input")
	cmd.Flags().StringVarP(&output, "output", "o", "-",
		"file to write, or with a folder as input the folder for its files; a .yaml, .yml or .json file gets all of "+
			"them; - for standard output; the input's name changes it in place")
	cmd.Flags().BoolVar(&diff, "diff", false, "only show what would change, as a unified diff")
	o.AddFlags(cmd.Flags())
	return cmd
}

// injectAll adds the collector to the objects in the files, and reports to w what it did. It returns the same files
// with the changed contents. If one file cannot be changed, none is, and nothing is reported.
func injectAll(w io.Writer, files []manifest, o Options) (changed []manifest, err error) {
	var all []Change
	for _, m := range files {
		out, changes, err := Manifest(m.data, o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		if len(changes) == 0 && len(files) == 1 {
			fmt.Fprintf(w, "%s: no RayCluster, RayJob, RayService or RayCronJob in it, nothing is added\n", m.path)
		}
		all = append(all, changes...)
		changed = append(changed, manifest{m.path, out})
	}
	report(w, all)
	return changed, nil
}

// report prints what was changed.
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
