package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject/yamledit"
)

// bootstrapFile is where `ray up` puts the cluster's configuration in the home of its user on the head
// (get_or_create_head_node in ray/autoscaler/_private/commands.py).
const bootstrapFile = "ray_bootstrap_config.yaml"

// maxBootstrap bounds that file, in bytes.
const maxBootstrap = 1 << 20

// slurmLabel is the label with the ID of Slurm's job, which tells the runs of a job apart.
const slurmLabel = "slurm-job-id"

// nameCluster names the cluster if no setting does and this is no pod: after the cluster of `ray up`, or else after
// Slurm's job, or else on a head after the machine. A worker's machine says nothing of its cluster. environ has the
// environment's variables, as NAME=value.
func (o *options) nameCluster(environ []string) {
	env := map[string]string{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	if o.Cluster != "" || env["KUBERNETES_SERVICE_HOST"] != "" {
		return
	}
	job := env["SLURM_JOB_ID"]
	switch {
	case env["HOME"] != "" && upCluster(env["HOME"]) != "":
		o.Cluster = upCluster(env["HOME"])
	case job != "":
		if o.Cluster = segment(env["SLURM_JOB_NAME"]); o.Cluster == "" {
			o.Cluster = "slurm-" + segment(job)
		}
		if len(o.Labels) == 0 {
			o.Labels = map[string]string{slurmLabel: job}
		}
	case o.Head || strings.EqualFold(strings.TrimSpace(o.role), head):
		host, _ := os.Hostname() // without one, the setting is missing
		o.Cluster = segment(host)
	}
}

// upCluster returns the name of the cluster for which `ray up` has set up this machine; "" if it has not. home is the
// user's folder.
func upCluster(home string) string {
	data, err := regular.ReadFile(filepath.Join(home, bootstrapFile), maxBootstrap)
	if err != nil {
		return ""
	}
	tree, err := yamledit.Decode(data)
	if err != nil {
		return ""
	}
	config, _ := tree.(map[string]any)
	name, _ := config["cluster_name"].(string)
	return segment(name)
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// segment makes a name that stored keys can have.
func segment(name string) string {
	name = strings.Trim(notInNames.ReplaceAllString(name, "-"), ".-")
	return name[:min(len(name), 200)]
}
