package kube_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayhistory/historyserver/test/kube/lab"
)

const chart = repository + "/config/helm"

// backends are the examples of values that say where history is stored, by name; each with what the server is told of it.
var backends = map[string]string{
	"s3": `"STORAGE_BACKEND":"s3"`, "minio": `"S3FORCE_PATH_STYLE":"true"`, "gcs": `"GCS_BUCKET":"YOUR-BUCKET"`,
	"azureblob": `"AZURE_STORAGE_AUTH_MODE":"workload_identity"`, "azurite": `"RAYHISTORY_STORAGE_CREATE_BUCKET":"true"`,
	"aliyunoss": `"OSS_REGION":"cn-hangzhou"`, "local": `"RAYHISTORY_LOCAL_DIR":"/data"`,
}

func example(name string) string { return "--values=" + filepath.Join(chart, "examples", name+".yaml") }

// render gives the objects that the chart makes of values, each as JSON, or Helm's error.
func render(t *testing.T, args ...string) ([]object, error) {
	t.Helper()
	out, err := exec.Command(lab.HelmBin(t), append([]string{"template", "historyserver", chart, "--namespace=history"}, args...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		return nil, err
	}
	var objects []object
	docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		var raw json.RawMessage
		if err := docs.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			t.Fatal(err)
		}
		o := object{text: string(raw)}
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
}

// object holds what is looked at of an object.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Template struct {
			Spec struct {
				SecurityContext struct{ RunAsNonRoot bool }
				Containers      []struct {
					Image           string
					Args            []string
					SecurityContext struct {
						AllowPrivilegeEscalation *bool
						ReadOnlyRootFilesystem   bool
						Capabilities             struct{ Drop []string }
					}
				}
			}
		}
	}
	text string // JSON
}

func find(objects []object, kind, name string) (object, bool) {
	i := slices.IndexFunc(objects, func(o object) bool { return o.Kind == kind && o.Metadata.Name == name })
	if i < 0 {
		return object{}, false
	}
	return objects[i], true
}

// Whatever the values: the backend's settings, the images, flags that there are, no more rights in pods than they need, and secrets in Secrets only.
func TestChart(t *testing.T) {
	known := flags(t)
	secrets := []string{"minioadmin", "AccountKey", "client-s3cret", "c00kie-key-of-thirty-two-letters"}
	for backend, setting := range backends {
		for mode, values := range map[string][]string{
			"plain": nil, "everything": {example("oidc"), "--set=auth.oidc.existingSecret=,auth.oidc.clientSecret=client-s3cret,auth.oidc.cookieKey=c00kie-key-of-thirty-two-letters"},
			"token": {"--set=auth.mode=token,auth.token.tokens=client-s3cret,image.tag=v9,indexCache.storageClass=ssd"},
		} {
			t.Run(backend+", "+mode, func(t *testing.T) {
				objects, err := render(t, append([]string{example(backend)}, values...)...)
				if err != nil {
					t.Fatal(err)
				}
				if storage, ok := find(objects, "ConfigMap", "ray-history-storage"); !ok || !strings.Contains(storage.text, setting) || storage.Metadata.Namespace != "history" {
					t.Errorf("the storage is %s, want %s", storage.text, setting)
				}
				for _, o := range objects {
					for _, secret := range secrets {
						if o.Kind != "Secret" && strings.Contains(o.text, secret) {
							t.Errorf("%s %s shows %s", o.Kind, o.Metadata.Name, secret)
						}
					}
					if o.Kind != "Deployment" {
						continue
					}
					pod := o.Spec.Template.Spec
					if !pod.SecurityContext.RunAsNonRoot || len(pod.Containers) != 1 {
						t.Errorf("%s: %s", o.Metadata.Name, o.text)
						continue
					}
					c := pod.Containers[0]
					if c.SecurityContext.AllowPrivilegeEscalation == nil || *c.SecurityContext.AllowPrivilegeEscalation || !c.SecurityContext.ReadOnlyRootFilesystem || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
						t.Errorf("%s may more than it needs: %+v", o.Metadata.Name, c.SecurityContext)
					}
					if want := map[bool]string{false: "historyserver:v0.1.0", true: "historyserver:v9"}[mode == "token"]; c.Image != want {
						t.Errorf("image %s, want %s", c.Image, want)
					}
					for _, arg := range c.Args {
						if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); strings.HasPrefix(arg, "--") && !known[name] {
							t.Errorf("%s is given %s, which is no flag", o.Metadata.Name, arg)
						}
					}
				}
				kinds := []string{"ServiceMonitor", "PodMonitor", "PrometheusRule", "Ingress", "MutatingWebhookConfiguration"}
				for _, kind := range kinds {
					if is := slices.ContainsFunc(objects, func(o object) bool { return o.Kind == kind }); is != (mode == "everything") {
						t.Errorf("%s: %t", kind, is)
					}
				}
			})
		}
	}
}

// What cannot work is refused, with what to say instead.
func TestChartRefuses(t *testing.T) {
	for want, args := range map[string]string{
		"storage.s3.bucket: say in which bucket": "",
		"additional properties 'storge'":         "storge.backend=s3",
		"/storage/backend":                       "storage.backend=ftp",
		"/auth/mode":                             "storage.s3.bucket=x,auth.mode=ldap",
		"auth.oidc.issuerURL: say who":           "storage.s3.bucket=x,auth.mode=oidc",
		"auth.token.tokens: say which":           "storage.s3.bucket=x,auth.mode=token",
		"ingress.host: say by which name":        "storage.s3.bucket=x,ingress.enabled=true",
	} {
		if _, err := render(t, "--set="+args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// Each backend's values, with everything that can be switched on, in the API server itself: installed, upgraded, and taken away without a trace.
func TestChartIsInstalledAndUpgraded(t *testing.T) {
	l := lab.Start(t)
	l.InstallPrometheusOperator(t)
	l.Kubectl(t, "", "create", "namespace", "team")
	for backend := range backends {
		release, namespace := "history-"+backend, "ns-"+backend
		args := []string{release, chart, "--namespace=" + namespace, example(backend), example("oidc"), "--set=collectors.namespaces={team}",
			"--set=auth.oidc.existingSecret=,auth.oidc.clientSecret=x"}
		if notes := l.Helm(t, append([]string{"install", "--create-namespace"}, args...)...); !strings.Contains(notes, "Open https://history.example.com/") {
			t.Errorf("%s: the notes are %s", backend, notes)
		}
		get := func(what ...string) string {
			t.Helper()
			return l.Kubectl(t, "", append([]string{"get", "-n", namespace}, what...)...)
		}
		key := get("secret", release+"-auth", "-o", "jsonpath={.data.cookie-key}")
		l.Helm(t, append([]string{"upgrade"}, append(args, "--set=replicas=3,auth.oidc.namespaces=null,webhook.enabled=false")...)...)
		if replicas := get("deployment", release, "-o", "jsonpath={.spec.replicas} {.status.observedGeneration}"); !strings.HasPrefix(replicas, "3") {
			t.Errorf("%s: %s replicas", backend, replicas)
		}
		if again := get("secret", release+"-auth", "-o", "jsonpath={.data.cookie-key}"); key == "" || again != key {
			t.Errorf("%s: the cookies' key was %q, and is %q after an upgrade", backend, key, again)
		}
		if out, _ := l.Try(t, "", "auth", "can-i", "create", "subjectaccessreviews.authorization.k8s.io", "--as=system:serviceaccount:"+namespace+":"+release); !strings.Contains(out, "yes") {
			t.Errorf("%s: without a file of namespaces the server may not ask who may see what: %s", backend, out)
		}
		if left := get("mutatingwebhookconfigurations", "-o", "name"); strings.Contains(left, namespace) {
			t.Errorf("%s: the webhook is still there: %s", backend, left)
		}
		l.Helm(t, "uninstall", release, "--namespace="+namespace)
		for _, kinds := range []string{"deployment,service,secret,configmap,serviceaccount,networkpolicy,ingress,servicemonitor,podmonitor,prometheusrule,role,rolebinding,clusterrole,clusterrolebinding"} {
			if left := l.Kubectl(t, "", "get", kinds, "--all-namespaces", "-o", "name", "-l", "app="+release); left != "" {
				t.Errorf("%s leaves %s", backend, left)
			}
		}
	}
}
