package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rayhistory/historyserver/internal/regular"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject/yamledit"
)

// bootstrapFile is the file with the cluster's configuration that `ray up` puts into the home folder of its user on the
// head
// (get_or_create_head_node in ray/autoscaler/_private/commands.py).
const bootstrapFile = "ray_bootstrap_config.yaml"

// maxBootstrap bounds that file, in bytes.
const maxBootstrap = 1 << 20

// slurmLabel is the label with the ID of Slurm's job, by which runs of jobs of the same name can be told apart.
const slurmLabel = "slurm-job-id"

// nameCluster names the cluster, if no setting names it and the collector runs outside Kubernetes: after the cluster of
// `ray up`, else after Slurm's job, else on a head after the machine. On a worker it has no name then, because the
// machine of a worker says nothing of its cluster. environ are the environment's variables, NAME=value.
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
	upName := ""
	if home := env["HOME"]; home != "" {
		upName = upCluster(home)
	}
	switch {
	case upName != "":
		o.Cluster = upName
	case job != "":
		o.Cluster = cmp.Or(keyPart(env["SLURM_JOB_NAME"]), "slurm-"+keyPart(job))
		if len(o.Labels) == 0 {
			o.Labels = map[string]string{slurmLabel: job}
		}
	case o.Head || strings.EqualFold(strings.TrimSpace(o.role), head):
		host, _ := os.Hostname() // if it is not known, the cluster has no name, which checkNames refuses
		o.Cluster = keyPart(host)
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
	return keyPart(name)
}

// notInNames matches what a part of a stored key must not have.
var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// keyPart returns a name with - in place of characters that a part of a stored key must not have, at most 200 bytes.
func keyPart(name string) string {
	name = strings.Trim(notInNames.ReplaceAllString(name, "-"), ".-")
	return name[:min(len(name), 200)]
}
