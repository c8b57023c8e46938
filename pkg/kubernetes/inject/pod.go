package inject

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rayhistory/historyserver/pkg/ray/event"
	"github.com/rayhistory/historyserver/pkg/ray/rayversion"
)

// addToGroup adds the collector to the pod template of a group, the head's or a worker group's; spec is the group's
// specification. It returns what was read of the group's Ray node; head is that of the head, nil for the head itself.
// It adds to change what was done and warnings, each with the group's name (what) before it. A pod that has a collector
// stays as it is, unless Options.Replace is set.
func (c cluster) addToGroup(spec map[string]any, role, what string, head *rayNode, change *Change) (*rayNode, error) {
	template, err := mapping(spec, "template")
	if err != nil {
		return nil, err
	}
	pod, err := descend(spec, "template", "spec")
	if err != nil {
		return nil, err
	}
	g, err := newGroup(spec, pod, role)
	if err != nil {
		return nil, err
	}
	c = c.withPod(template, g.ray)
	n, err := c.readNode(g, head)
	if err != nil {
		return nil, err
	}
	if collector := g.collector(); collector != nil && !c.options.Replace {
		if !hasWholeCollector(spec) {
			change.Warnings = append(change.Warnings, what+": its container "+containerName+" shares no volume with "+
				"Ray's, so nothing of the pod is stored: if it is not for the history, give it another name")
		}
		if c.madeByKubeRay {
			err = c.completeCollector(collector, role)
		}
		return n, err
	}
	c.choosePorts(n)
	shared, err := c.shareFolders(pod, g.ray, role, n)
	if err != nil {
		return nil, err
	}
	own, err := c.addVolumes(pod, n)
	if err != nil {
		return nil, err
	}
	added, warnings, err := exportEnv(g.ray, event.ExportAddress(c.options.EventsPort), event.ExportTypes(c.version))
	if err != nil {
		return nil, fmt.Errorf("template.spec.containers[0]: %w", err)
	}
	c.placeContainer(g, c.container(g, n, shared, own))
	warnings = slices.Concat(n.warnings, warnings, c.podWarnings(g))
	hadAccount := text(pod, "serviceAccountName") != ""
	if err := c.addIdentity(template, pod); err != nil {
		return nil, err
	}
	change.Done = append(change.Done, c.summaryLine(what, n, added, hadAccount))
	for _, w := range warnings {
		change.Warnings = append(change.Warnings, what+": "+w)
	}
	return n, nil
}

// summaryLine says in a line what was added to a pod: variables is how many Ray's container got.
func (c cluster) summaryLine(what string, n *rayNode, variables int, hadAccount bool) string {
	form := "container"
	if c.options.Native {
		form = "native sidecar"
	}
	done := fmt.Sprintf("%s: collector as %s, Ray's %s shared, %d variables for Ray's events", what, form,
		strings.Join(n.folders, " and "), variables)
	if !hadAccount && c.options.ServiceAccount != "" {
		done += ", service account " + c.options.ServiceAccount + " instead of default"
	}
	return done
}

// shutdownSeconds is the default of the collector's --shutdown-timeout.
const shutdownSeconds = 25

// podWarnings returns warnings about settings of a pod that harm its collector, or that the collector harms. It must be
// called before the pod gets an account.
func (c cluster) podWarnings(g group) (all []string) {
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if g.role == roleHead && rayversion.Before(c.version, rayversion.Version{2, 55}) {
		warn("Ray %s does not export its events: its logs are stored, but no tasks and actors, which need Ray 2.55",
			c.version)
	}
	if host, _ := g.pod["hostNetwork"].(bool); host {
		warn("hostNetwork is set: two Ray pods on one node would share ports %d and %d", c.options.EventsPort,
			c.options.MetricsPort)
	}
	never := ""
	switch {
	case text(g.pod, "restartPolicy") == "Never":
		never = "its restartPolicy is Never"
	case c.autoscaler == "v2":
		never = "KubeRay makes its restartPolicy Never for the autoscaler's version 2"
	case c.sidecarMode && g.role == roleHead:
		never = "KubeRay makes its restartPolicy Never for submissionMode: SidecarMode"
	}
	if never != "" && !c.options.Native {
		warn("%s: a collector that ends, such as by its memory limit, is not started again, and the pod is never ready "+
			"again; --native prevents it", never)
	}
	grace, err := strconv.Atoi(fmt.Sprint(g.pod["terminationGracePeriodSeconds"]))
	if err == nil && grace < shutdownSeconds {
		warn("its terminationGracePeriodSeconds is %d, but after SIGTERM the collector may take %d s to store the rest: "+
			"raise it, or set RAYHISTORY_SHUTDOWN_TIMEOUT below it", grace, shutdownSeconds)
	}
	account := c.options.ServiceAccount
	if c.autoscaler != "" && g.role == roleHead && account != "" && text(g.pod, "serviceAccountName") == "" {
		warn("KubeRay gives its account, now %s, the autoscaler's rights to change pods and RayClusters, and all pods "+
			"with this account have them: name another one in the head's pod", account)
	}
	return all
}

// anyRole is the role of a group whose role does not matter.
const anyRole = ""

// newGroup finds Ray's container and Ray's start parameters in a group. spec is the group's specification, nil if only
// the pod matters.
func newGroup(spec, pod map[string]any, role string) (group, error) {
	g := group{role: role, pod: pod}
	var err error
	if g.containers, err = list(pod, "containers"); err != nil {
		return g, err
	}
	if g.inits, err = list(pod, "initContainers"); err != nil {
		return g, err
	}
	if len(g.containers) == 0 {
		return g, errors.New("template.spec.containers: want at least Ray's container")
	}
	// KubeRay takes the first container for Ray's.
	ray, ok := g.containers[0].(map[string]any)
	if !ok {
		return g, errors.New("template.spec.containers[0]: want a mapping")
	}
	g.ray = ray
	g.params, err = mapping(spec, "rayStartParams")
	return g, err
}

// collector is the pod's, nil if it has none.
func (g group) collector() map[string]any {
	for _, all := range [][]any{g.containers, g.inits} {
		if i := indexOfName(all, containerName); i >= 0 {
			return all[i].(map[string]any)
		}
	}
	return nil
}

// withPod adds to a cluster what a pod template says: Ray's version by the image's tag where the cluster does not name
// one, and KubeRay's annotation.
func (c cluster) withPod(template, ray map[string]any) cluster {
	if c.version == "" {
		image, _, _ := strings.Cut(text(ray, "image"), "@") // without the digest
		_, c.version, _ = strings.Cut(path.Base(image), ":")
	}
	meta, _ := mapping(template, "metadata")
	c.overwrite = c.overwrite || overwritesCommand(meta)
	return c
}

// overwritesCommand reports whether an object says that KubeRay is to leave the Ray container's command alone.
func overwritesCommand(meta map[string]any) bool {
	annotations, _ := mapping(meta, "annotations")
	return strings.EqualFold(text(annotations, "ray.io/overwrite-container-cmd"), "true")
}

// choosePorts changes the collector's ports where they are used by others in the pod: a collector that starts first
// would keep Ray from its port.
func (c *cluster) choosePorts(n *rayNode) {
	for _, p := range []struct {
		port, other *int
		what        string
	}{{&c.options.EventsPort, &c.options.MetricsPort, "events"},
		{&c.options.MetricsPort, &c.options.EventsPort, "metrics"}} {
		if user := n.ports.usedBy(*p.port); user != "" {
			free := n.ports.freePort(*p.port, *p.other)
			n.warn("port %d is of %s: the collector takes %d for %s", *p.port, user, free, p.what)
			*p.port = free
		}
	}
}

// placeContainer puts the collector's container into the pod, as a container or as a native sidecar, in place of an
// earlier one of either form.
func (c cluster) placeContainer(g group, collector map[string]any) {
	pod, keep, keepKey, otherKey := g.pod, g.containers, "containers", "initContainers"
	if c.options.Native {
		keep, keepKey, otherKey = g.inits, "initContainers", "containers"
	}
	removeCollector(pod, otherKey)
	if i := indexOfName(keep, containerName); i >= 0 {
		keep[i] = collector
		return
	}
	pod[keepKey] = append(keep, collector)
}

// removeCollector takes the collector out of one of a pod's lists.
func removeCollector(pod map[string]any, key string) {
	containers, _ := list(pod, key)
	i := indexOfName(containers, containerName)
	if i < 0 {
		return
	}
	pod[key] = append(containers[:i:i], containers[i+1:]...)
	if len(containers) == 1 {
		delete(pod, key)
	}
}

// addIdentity gives the pod the service account and the labels that a cloud's workload identity needs. What the pod has
// already stays.
func (c cluster) addIdentity(template, pod map[string]any) error {
	if sa := c.options.ServiceAccount; sa != "" && text(pod, "serviceAccountName") == "" {
		pod["serviceAccountName"] = sa
	}
	if len(c.options.PodLabels) == 0 {
		return nil
	}
	meta, err := mapping(template, "metadata")
	if err != nil {
		return err
	}
	if meta == nil {
		meta = map[string]any{}
		template["metadata"] = meta
	}
	labels, err := mapping(meta, "labels")
	if err != nil {
		return err
	}
	if labels == nil {
		labels = map[string]any{}
		meta["labels"] = labels
	}
	for k, v := range c.options.PodLabels {
		if _, ok := labels[k]; !ok {
			labels[k] = v
		}
	}
	return nil
}
