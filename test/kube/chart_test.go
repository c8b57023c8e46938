package kube_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/pkg/maintenance/retention"
	"github.com/rayhistory/historyserver/pkg/webhooks"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

const chart = repository + "/config/helm"

// backends are the examples of values that say where history is stored, by name; each with what the server is told of
// it.
var backends = map[string]string{
	"s3": `"STORAGE_BACKEND":"s3"`, "minio": `"S3FORCE_PATH_STYLE":"true"`, "gcs": `"GCS_BUCKET":"YOUR-BUCKET"`,
	"azureblob": `"AZURE_STORAGE_AUTH_MODE":"workload_identity"`,
	"azurite":   `"RAYHISTORY_STORAGE_CREATE_BUCKET":"true"`,
	"aliyunoss": `"OSS_REGION":"cn-hangzhou"`, "local": `"RAYHISTORY_LOCAL_DIR":"/data"`,
}

func example(name string) string { return "--values=" + filepath.Join(chart, "examples", name+".yaml") }

// render gives the objects that the chart makes of values, each as JSON, or Helm's error.
func render(t *testing.T, args ...string) ([]object, error) {
	t.Helper()
	out, err := exec.Command(buildcache.Helm(t),
		append([]string{"template", "historyserver", chart, "--namespace=history"}, args...)...).Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
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
		must.OK(t, json.Unmarshal(raw, &o))
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

// Whatever the values: the backend's settings, the images, flags that there are, no more rights in pods than they need,
// and secrets in Secrets only.
func TestChart(t *testing.T) {
	known := commonFlags(t)
	secrets := []string{"minioadmin", "AccountKey", "client-s3cret", "c00kie-key-of-thirty-two-letters", "hush-hush"}
	for backend, setting := range backends {
		for mode, values := range map[string][]string{
			"plain": nil, "everything": {example("oidc"), example("company"),
				"--set=notify.existingSecret=,notify.secrets.slack-url=https://hooks.example.com/hush-hush,auth.oidc.existingSecret=,auth.oidc.clientSecret=client-s3cret,auth.oidc.cookieKey=c00kie-key-of-thirty-two-letters"},
			"several": {example("several")},
			"token":   {"--set=auth.mode=token,auth.token.tokens=client-s3cret,image.tag=v9,indexCache.storageClass=ssd"},
		} {
			t.Run(backend+", "+mode, func(t *testing.T) {
				objects := must.Get(render(t, append([]string{example(backend)}, values...)...))(t)
				if storage, ok := find(objects, "ConfigMap", "ray-history-storage"); !ok ||
					!strings.Contains(storage.text, setting) || storage.Metadata.Namespace != "history" {
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
					if c.SecurityContext.AllowPrivilegeEscalation == nil ||
						*c.SecurityContext.AllowPrivilegeEscalation || !c.SecurityContext.ReadOnlyRootFilesystem ||
						!slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
						t.Errorf("%s may more than it needs: %+v", o.Metadata.Name, c.SecurityContext)
					}
					if want := map[bool]string{false: "historyserver:v0.1.0",
						true: "historyserver:v9"}[mode == "token"]; c.Image != want {
						t.Errorf("image %s, want %s", c.Image, want)
					}
					for _, arg := range c.Args {
						if name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "="); strings.HasPrefix(arg,
							"--") && !known.any(name) {
							t.Errorf("%s is given %s, which is no flag", o.Metadata.Name, arg)
						}
					}
				}
				kinds := []string{"ServiceMonitor", "PodMonitor", "PrometheusRule", "Ingress",
					"MutatingWebhookConfiguration"}
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
		"storage.s3.bucket: say in which bucket":   "",
		"additional properties 'storge'":           "storge.backend=s3",
		"/storage/backend":                         "storage.backend=ftp",
		"/auth/mode":                               "storage.s3.bucket=x,auth.mode=ldap",
		"auth.oidc.issuerURL: say who":             "storage.s3.bucket=x,auth.mode=oidc",
		"auth.token.tokens: say which":             "storage.s3.bucket=x,auth.mode=token",
		"ingress.host: say by which name":          "storage.s3.bucket=x,ingress.enabled=true",
		"auth.proxy.trusted: say in which":         "storage.s3.bucket=x,auth.mode=kubernetes,auth.proxy.identityHeader=X-Forwarded-User",
		"auth.proxy.identityHeader: say auth.mode": "storage.s3.bucket=x,auth.proxy.identityHeader=X-Forwarded-User",
		"indexCache.maxSize: more than":            "storage.s3.bucket=x,indexCache.size=5Gi",
		"indexCache.maxSize: more than ":           "storage.s3.bucket=x,indexCache.size=10G", // 9.3 GiB
		"/global/imageRegistry":                    "storage.s3.bucket=x,global.imageRegistry=https://r.io",
		"/image/registry":                          "storage.s3.bucket=x,image.registry=r.io/ray/",
		"/notify/receivers/0/events/0":             "storage.s3.bucket=x,notify.receivers[0].name=a,notify.receivers[0].events[0]=job_lost",
		"/retention/rules/0":                       "storage.s3.bucket=x,retention.rules[0].outcomes[0]=failed",
		"/retention/keep":                          "storage.s3.bucket=x,retention.keep=90",
		"/retention/rules/0/keep":                  "storage.s3.bucket=x,retention.rules[0].keep=90",
		"/sessionMemory":                           "storage.s3.bucket=x,sessionMemory=2 GB of it",
		"/metricsMemory":                           "storage.s3.bucket=x,metricsMemory=",
		"/indexCache/maxSize":                      "storage.s3.bucket=x,indexCache.maxSize=10GiB+",
		"/indexCache/size":                         "storage.s3.bucket=x,indexCache.size=12GiB",
		"/monitoring/interval":                     "storage.s3.bucket=x,monitoring.interval=",
		"/explain/requests":                        "storage.s3.bucket=x,explain.requests=59",
		"/imagePullSecrets/0":                      "storage.s3.bucket=x,imagePullSecrets[0].nme=registry",
		"/image/digest":                            "storage.s3.bucket=x,image.digest=latest",
		"/webhook/select":                          "storage.s3.bucket=x,webhook.select=some",
		"/webhook/objectSelector":                  "storage.s3.bucket=x,webhook.objectSelector.team=a",
		"/webhook/matchConditions/0":               "storage.s3.bucket=x,webhook.matchConditions[0].name=a",
		"httpRoute.parentRefs: say which":          "storage.s3.bucket=x,httpRoute.enabled=true,httpRoute.hostnames={h}",
		"httpRoute.hostnames: say by which":        "storage.s3.bucket=x,httpRoute.enabled=true,httpRoute.parentRefs[0].name=g",
		"auth.kubernetesClusters: nobody asks":     "storage.s3.bucket=x,auth.kubernetesClusters=others",
		"/kubernetesCluster":                       "storage.s3.bucket=x,kubernetesCluster=Prod EU",
		"log is null, which removes":               "storage.s3.bucket=x,log=null",
		"storage is null, which removes":           "storage=null",
		"storage.gcs is null":                      "storage.backend=gcs,storage.gcs=null",
		"collectors.settings is null":              "storage.s3.bucket=x,collectors.settings=null",
		"auth.oidc.cookieKey: a client without":    "storage.s3.bucket=x,auth.mode=oidc,auth.oidc.issuerURL=https://i,auth.oidc.clientID=c,auth.oidc.redirectURL=https://h/oidc/callback",
	} {
		if _, err := render(t, "--set="+args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// What the server reads as files is what its own readers take, and each value becomes the flag that it stands for.
func TestChartSettings(t *testing.T) {
	objects, err := render(t, example("s3"), example("oidc"), example("company"),
		"--set=auth.oidc.ca=PEM,auth.oidc.audiences={kubectl},auth.oidc.usernamePrefix=oidc:,auth.oidc.sessionLifetime=1h,notify.publicURL=,live.writes=true,notes=false",
		"--set=catalog.requests=1000000,explain.requests=0,metricsMemory=1GiB,kubernetesCluster=prod-eu")
	must.OK(t, err)
	settings, _ := find(objects, "ConfigMap", "historyserver-settings")
	var files struct{ Data map[string]string }
	must.OK(t, json.Unmarshal([]byte(settings.text), &files))
	if rules, err := retention.ParseRules([]byte(files.Data["retention.yaml"])); err != nil || len(rules) != 3 ||
		rules[0].Namespaces[0] != "prod-*" {
		t.Errorf("rules %+v of %q: %v", rules, files.Data["retention.yaml"], err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"platform-key": "correct horse battery staple",
		"slack-url": "https://hooks.slack.com/services/x"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	told, err := webhooks.Parse([]byte(strings.ReplaceAll(files.Data["webhooks.yaml"], "/etc/ray-history-notify", dir)),
		os.Getenv)
	if err != nil || len(told.Receivers) != 2 || told.PublicURL != "https://history.example.com" {
		t.Errorf("receivers %+v of %q: %v", told, files.Data["webhooks.yaml"], err)
	}
	if people := files.Data["namespaces.yaml"]; !strings.Contains(people, "group: team-a") ||
		files.Data["oidc-ca.pem"] != "PEM\n" {
		t.Errorf("%q", files.Data)
	}
	server, _ := find(objects, "Deployment", "historyserver")
	args := server.Spec.Template.Spec.Containers[0].Args
	for _, want := range []string{
		"--retention=90d", "--retention-rules=/etc/ray-history-settings/retention.yaml", "--upkeep-interval=1h",
		"--compact", "--notes=false",
		"--webhooks=/etc/ray-history-settings/webhooks.yaml", "--grafana-host=http://grafana.monitoring:3000",
		"--grafana-iframe-host=https://grafana.example.com",
		"--prometheus-host=http://prometheus.monitoring:9090", "--prometheus-name=Prometheus", "--log-format=json",
		"--log-level=info",
		"--live-namespaces=team-a,team-b", "--live-selector=stage!=test", "--live-writes", "--catalog-requests=1000000",
		"--explain-requests=0", "--max-metrics-memory=1GiB",
		"--oidc-audiences=kubectl", "--oidc-username-prefix=oidc:", "--oidc-session-lifetime=1h",
		"--oidc-ca-file=/etc/ray-history-settings/oidc-ca.pem", "--kubernetes-cluster=prod-eu",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("no %s among %q", want, args)
		}
	}
	if storage, _ := find(objects, "ConfigMap", "ray-history-storage"); !strings.Contains(storage.text,
		`"RAYHISTORY_PUSH_INTERVAL":"30s"`) {
		t.Errorf("the collectors are told %s", storage.text)
	} else if !strings.Contains(storage.text, `"RAYHISTORY_KUBERNETES_CLUSTER":"prod-eu"`) {
		t.Errorf("the collectors are not told their Kubernetes cluster: %s", storage.text)
	}
	for _, mounted := range []string{`"mountPath":"/etc/ray-history-settings"`, `"mountPath":"/etc/ray-history-notify"`,
		`"secretName":"ray-history-notify"`} {
		if !strings.Contains(server.text, mounted) {
			t.Errorf("no %s in %s", mounted, server.text)
		}
	}
}

// What the chart says by variables is known to the binaries, which refuse what they do not know.
func TestChartVariables(t *testing.T) {
	objects := must.Get(render(t, example("local"), example("company")))(t)
	for name, command := range map[string]struct {
		args []string
		says string
	}{
		"historyserver-server": {[]string{"historyserver", "ls", "--local-dir=" + t.TempDir()}, "NAMESPACE"},
		"ray-history-storage":  {[]string{"collector", "--exit-on-error"}, "--ray-cluster-name is not set"},
	} {
		config, _ := find(objects, "ConfigMap", name)
		var variables struct{ Data map[string]string }
		if err := json.Unmarshal([]byte(config.text), &variables); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cmd := exec.CommandContext(t.Context(), binary(t, command.args[0]), command.args[1:]...)
		for variable, value := range variables.Data {
			cmd.Env = append(cmd.Env, variable+"="+value)
		}
		if out, _ := cmd.CombinedOutput(); !strings.Contains(string(out), command.says) {
			t.Errorf("with %s, %s says %s", config.text, command.args[0], out)
		}
	}
}

// TestChartWritesWhatIsGiven: texts that YAML would read as something else stay texts, and numbers stay what they are.
func TestChartWritesWhatIsGiven(t *testing.T) {
	for path, given := range map[string]struct{ value, kind, field, want string }{
		"storage.local.existingClaim": {"0123", "Deployment", "claimName", "0123"},
		"serviceAccount.name":         {"0123", "Deployment", "serviceAccountName", "0123"},
		"auth.token.existingSecret":   {"yes", "Deployment", "secretName", "yes"},
		"ingress.className":           {"1e3", "Ingress", "ingressClassName", "1e3"},
		"grafana.clusterFilter":       {`Ray: "a\b" # c`, "Deployment", "", `--grafana-cluster-filter=Ray: "a\b" # c`},
		"storage.s3.bucket":           {`{{ .Release.Name }}'`, "ConfigMap", "S3_BUCKET", `{{ .Release.Name }}'`},
	} {
		backend := "s3"
		if strings.HasPrefix(path, "storage.local") {
			backend = "local"
		}
		objects, err := render(t, example(backend),
			"--set=auth.mode=token,auth.token.tokens=x,ingress.enabled=true,ingress.host=h,grafana.host=http://g",
			"--set-json="+path+"="+inJSON(t, given.value))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		want := inJSON(t, given.want)
		if given.field != "" {
			want = inJSON(t, given.field) + ":" + want
		}
		if !slices.ContainsFunc(objects, func(o object) bool {
			return o.Kind == given.kind &&
				strings.Contains(o.text, want)
		}) {
			t.Errorf("%s: no %s with %s", path, given.kind, want)
		}
	}
	objects, err := render(t, example("s3"),
		"--set-json=storage.settings={\"A\":1000000,\"B\":0.25,\"C\":true,\"D\":\"1e6\"}")
	must.OK(t, err)
	for _, want := range []string{`"A":"1000000"`, `"B":"0.25"`, `"C":"true"`, `"D":"1e6"`} {
		if !slices.ContainsFunc(objects, func(o object) bool {
			return o.Kind == "ConfigMap" &&
				strings.Contains(o.text, want)
		}) {
			t.Errorf("no setting %s", want)
		}
	}
	for settings, want := range map[string]string{
		`{"A":12345678901234567890}`: "A: Helm cannot read such a large number exactly",
		`{"A: b\nc":1}`:              "invalid propertyName"} {
		if _, err := render(t, example("s3"), "--set-json=storage.settings="+settings); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", settings, err, want)
		}
	}
}

func inJSON(t *testing.T, text string) string {
	t.Helper()
	written := must.Get(json.Marshal(text))(t)
	return string(written)
}

// Each backend's values, with everything that can be switched on, in the API server itself: installed, upgraded, and
// taken away without a trace.
func TestChartIsInstalledAndUpgraded(t *testing.T) {
	l := lab.Start(t)
	l.InstallPrometheusOperator(t)
	for _, namespace := range []string{"team", "team-a", "team-b"} { // of collectors.namespaces and live.namespaces
		l.Kubectl(t, "", "create", "namespace", namespace)
	}
	for backend, setting := range backends {
		release, namespace := "history-"+backend, "ns-"+backend
		args := []string{release, chart, "--namespace=" + namespace, example(backend), example("oidc"),
			example("company"), "--set=collectors.namespaces={team}",
			"--set=auth.oidc.existingSecret=,auth.oidc.clientSecret=x,notify.existingSecret=,notify.secrets.slack-url=x"}
		if notes := l.Helm(t, append([]string{"install", "--create-namespace"}, args...)...); !strings.Contains(notes,
			"Open https://history.example.com/") {
			t.Errorf("%s: the notes are %s", backend, notes)
		}
		get := func(what ...string) string {
			t.Helper()
			return l.Kubectl(t, "", append([]string{"get", "-n", namespace}, what...)...)
		}
		key := get("secret", release+"-auth", "-o", "jsonpath={.data.cookie-key}")
		l.Helm(t, append([]string{"upgrade"}, append(args,
			"--set=replicas=3,auth.oidc.namespaces=null,webhook.enabled=false,retention.rules=null,retention.keep=")...)...)
		if replicas := get("deployment", release, "-o",
			"jsonpath={.spec.replicas} {.status.observedGeneration}"); !strings.HasPrefix(replicas, "3") {
			t.Errorf("%s: %s replicas", backend, replicas)
		}
		if again := get("secret", release+"-auth", "-o", "jsonpath={.data.cookie-key}"); key == "" || again != key {
			t.Errorf("%s: the cookies' key was %q, and is %q after an upgrade", backend, key, again)
		}
		stored := get("configmap", "ray-history-storage", "-o", "jsonpath={.data}")
		if ours := get("configmap", release+"-server", "-o", "jsonpath={.data}"); !strings.Contains(ours, setting) {
			t.Errorf("%s: the server is told %s, want %s", backend, ours, setting)
		}
		if inTeam := l.Kubectl(t, "", "get", "-n", "team", "configmap", "ray-history-storage", "-o",
			"jsonpath={.data}"); inTeam != stored || !strings.Contains(stored, setting) {
			t.Errorf("%s: collectors are told %s and %s, want %s", backend, stored, inTeam, setting)
		}
		if args := get("deployment", release, "-o",
			"jsonpath={.spec.template.spec.containers[0].args}"); strings.Contains(args, "--retention") ||
			!strings.Contains(args, "--webhooks") {
			t.Errorf("%s: the rules are taken away, receivers stay: %s", backend, args)
		}
		if out, _ := l.Try(t, "", "auth", "can-i", "create", "subjectaccessreviews.authorization.k8s.io",
			"--as=system:serviceaccount:"+namespace+":"+release); !strings.Contains(out, "yes") {
			t.Errorf("%s: without a file of namespaces the server may not ask who may see what: %s", backend, out)
		}
		if left := get("mutatingwebhookconfigurations", "-o", "name"); strings.Contains(left, namespace) {
			t.Errorf("%s: the webhook is still there: %s", backend, left)
		}
		l.Helm(t, "uninstall", release, "--namespace="+namespace)
		for _, kinds := range []string{
			"deployment,service,secret,configmap,serviceaccount,networkpolicy,ingress,servicemonitor,podmonitor,prometheusrule,role,rolebinding,clusterrole,clusterrolebinding"} {
			if left := l.Kubectl(t, "", "get", kinds, "--all-namespaces", "-o", "name", "-l",
				"app="+release); left != "" {
				t.Errorf("%s leaves %s", backend, left)
			}
		}
	}
}
