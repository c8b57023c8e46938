package inject

import "strings"

// kuberays are the variables that KubeRay gives Ray's container from fields of the pod
// (ray-operator/controllers/ray/common/pod.go, setContainerEnvVars).
var kuberays = map[string]string{
	"RAY_CLOUD_INSTANCE_ID": "metadata.name", "RAY_NODE_TYPE_NAME": "metadata.labels['ray.io/group']",
}

// referred adds variables of Ray's container to the collector's: those to which texts of the collector refer.
type referred struct {
	env  []any             // the collector's
	have map[string]bool   // names in env
	rays []any             // of Ray's container
	at   map[string]int    // of names in rays
	lost map[string]string // of names in rays that the collector cannot have, to what is missing
	// hasUnlisted says that Ray's container has more variables than rays, from ConfigMaps or Secrets.
	hasUnlisted bool
}

// newReferred makes a set of variables that begins with env, the collector's own. Variables are added from ray, which
// is Ray's container.
func newReferred(env []any, ray map[string]any) *referred {
	r := &referred{env: env, have: map[string]bool{}, at: map[string]int{}, lost: map[string]string{}}
	for _, v := range env {
		r.have[text(v.(map[string]any), "name")] = true
	}
	r.rays, _ = list(ray, "env") // environmentOf has seen that it is one
	for i, v := range r.rays {
		if m, ok := v.(map[string]any); ok {
			r.at[text(m, "name")] = i
		}
	}
	from, _ := list(ray, "envFrom")
	r.hasUnlisted = len(from) > 0
	return r
}

// add adds what a text refers to. missing is a variable that Ray's container may have and the collector cannot: a
// container with it in subPathExpr would not start.
func (r *referred) add(s string) (missing string) { return r.addBefore(s, len(r.rays)) }

// addBefore adds those of Ray's variables to which a text refers and which stand before the index end in Ray's
// environment: a value can only refer to variables before it. The variables to which their own values refer are added
// first: one that refers to a variable of a ConfigMap or Secret, which the collector does not get, cannot be had
// either. missing names a variable that cannot be had; "" if there is none.
func (r *referred) addBefore(s string, end int) (missing string) {
	for _, m := range reference.FindAllStringSubmatch(strings.ReplaceAll(s, "$$", ""), -1) {
		name := m[1]
		at, ok := r.at[name]
		switch {
		case r.have[name]: // nothing to add
		case r.lost[name] != "":
			missing = r.lost[name]
		case ok && at < end:
			entry := r.rays[at].(map[string]any)
			// A reference to no variable at all stays as it is, here as in Ray's container.
			if lost := r.addBefore(scalarText(entry["value"]), at); lost != "" && r.hasUnlisted {
				r.lost[name], missing = lost, lost
				continue
			}
			r.put(name, entry)
		case kuberays[name] != "" && end == len(r.rays): // KubeRay adds them after the others
			r.put(name, fromField(name, kuberays[name]))
		default:
			missing = name
		}
	}
	return missing
}

func (r *referred) put(name string, entry any) {
	r.have[name] = true
	r.env = append(r.env, entry)
}
