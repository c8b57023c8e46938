package kube_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/rayhistory/historyserver/internal/testkit/buildcache"
	"github.com/rayhistory/historyserver/internal/testkit/freeport"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/test/kube/lab"
)

// The forms in which other charts take such values: each value in YAML, and what it makes of which object.
func TestChartForms(t *testing.T) {
	for values, want := range map[string][]string{
		`{"fullnameOverride":"history"}`:                        {"Deployment/history", `"app":"history"`},
		`{"fullnameOverride":"history","nameOverride":"other"}`: {"Deployment/history"},
		`{"startupProbe":null,"podSecurityContext":null,"securityContext":null,"resources":null}`: {
			"Deployment/historyserver", `"livenessProbe"`},
		`{"sessionMemory":null,"catalog":{"interval":null},"retention":{"interval":null,"keep":"30d"}}`: {
			"Deployment/historyserver", `"args":["--shutdown-delay=5s","--catalog-requests=20000","--explain-requests=6000",` +
				`"--index-cache-max-size=10GiB","--log-format=text","--log-level=info","--max-metrics-memory=256MiB",` +
				`"--notes=true","--retention=30d","--live=storage"`},
		`{"nameOverride":"history"}`: {"Service/historyserver-history", `"app":"historyserver-history"`},
		`{"imagePullSecrets":[{"name":"a"},"b"],"global":{"imagePullSecrets":["c"]}}`: {
			"Deployment/historyserver-webhook",
			`"imagePullSecrets":[{"name":"a"},{"name":"b"},{"name":"c"}]`},
		`{"imagePullSecrets":["a"]}`: {"ServiceAccount/ray-history-collector", `"imagePullSecrets":[{"name":"a"}]`},
		`{"image":{"registry":"r.io/x","digest":"sha256:00000000000000000000000000000000"},"global":{"imageRegistry":"g.io"}}`: {
			"Deployment/historyserver", `"image":"r.io/x/historyserver@sha256:00000000000000000000000000000000"`},
		`{"global":{"imageRegistry":"g.io/ray"}}`: {"ConfigMap/historyserver-webhook",
			`"RAYHISTORY_IMAGE":"g.io/ray/collector:v0.1.0"`},
		`{"tolerations":[{"key":"ray"}],"nodeSelector":{"a":"b"},"priorityClassName":"high"}`: {
			"Deployment/historyserver-webhook",
			`"tolerations":[{"key":"ray"}]`, `"nodeSelector":{"a":"b"}`, `"priorityClassName":"high"`},
		`{"tolerations":[{"key":"ray"}],"webhook":{"tolerations":[{"key":"infra"}]}}`: {
			"Deployment/historyserver-webhook",
			`"tolerations":[{"key":"infra"}]`},
		`{"podLabels":{"team":"ml"},"podAnnotations":{"note":"x"},"commonLabels":{"cost":"1"},"commonAnnotations":{"owner":"ann"}}`: {
			"Deployment/historyserver-webhook", `"team":"ml"`, `"note":"x"`, `"cost":"1"`,
			`"annotations":{"owner":"ann"}`},
		`{"affinity":{"nodeAffinity":{}},"topologySpreadConstraints":[{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]}`: {
			"Deployment/historyserver", `"affinity":{"nodeAffinity":{}}`,
			`[{"labelSelector":{"matchLabels":{"app":"historyserver"}},"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]`},
		`{"podSecurityContext":{"fsGroup":null,"fsGroupChangePolicy":null}}`: {"Deployment/historyserver",
			`"securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`},
		`{"extraEnvFrom":[{"secretRef":{"name":"s"}}],"extraVolumes":[{"name":"ca","secret":{"secretName":"ca"}}],"extraVolumeMounts":[{"name":"ca","mountPath":"/ca"}]}`: {
			"Deployment/historyserver", `{"secretRef":{"name":"s"}}`, `{"name":"ca","secret":{"secretName":"ca"}}`,
			`{"mountPath":"/ca","name":"ca"}`},
		`{"initContainers":[{"name":"wait","image":"w"}],"extraContainers":[{"name":"proxy","image":"p"}],"lifecycle":{"preStop":{"sleep":{"seconds":5}}}}`: {
			"Deployment/historyserver", `"initContainers":[{"image":"w","name":"wait"}]`,
			`{"image":"p","name":"proxy"}`, `"preStop":{"sleep":{"seconds":5}}`},
		`{"startupProbe":{"failureThreshold":90},"terminationGracePeriodSeconds":60,"revisionHistoryLimit":3}`: {
			"Deployment/historyserver",
			`"startupProbe":{"failureThreshold":90,"httpGet":{"path":"/healthz","port":"http"},"periodSeconds":2}`,
			`"terminationGracePeriodSeconds":60`, `"revisionHistoryLimit":3`},
		`{"tls":{"existingSecret":"cert"}}`: {"Deployment/historyserver", `"--tls-cert-file=/etc/ray-history-tls/tls.crt"`,
			`"httpGet":{"path":"/readyz","port":"http","scheme":"HTTPS"}`, `"secret":{"defaultMode":288,"secretName":"cert"}`},
		`{"tls":{"existingSecret":"cert"},"monitoring":{"enabled":true}}`: {"ServiceMonitor/historyserver",
			`"scheme":"https"`},
		`{"extraObjects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"{{ .Release.Name }}-more"}}]}`: {
			"ConfigMap/historyserver-more"},
		`{"autoscaling":{"enabled":true,"maxReplicas":9}}`: {"HorizontalPodAutoscaler/historyserver", `"maxReplicas":9`,
			`"averageUtilization":80`},
		`{"podDisruptionBudget":{"maxUnavailable":"50%"}}`: {"PodDisruptionBudget/historyserver",
			`"maxUnavailable":"50%"`},
		`{"httpRoute":{"enabled":true,"parentRefs":[{"name":"public","namespace":"gateways"}],"hostnames":["h.example.com"]}}`: {
			"HTTPRoute/historyserver", `"parentRefs":[{"name":"public","namespace":"gateways"}]`,
			`"hostnames":["h.example.com"]`,
			`"backendRefs":[{"name":"historyserver","port":30080}]`},
		`{"httpRoute":{"enabled":true,"parentRefs":[{"name":"p"}],"hostnames":["a","b"]},"allowedHosts":["c"]}`: {
			"Deployment/historyserver", `"--allowed-hosts=a,b,c"`},
		`{"ingress":{"enabled":true,"host":"a","extraHosts":["b"],"tlsSecret":"t"}}`: {"Ingress/historyserver",
			`"tls":[{"hosts":["a","b"],"secretName":"t"}]`, `"host":"b"`},
		`{"service":{"type":"LoadBalancer","nodePort":30001,"loadBalancerSourceRanges":["10.0.0.0/8"]}}`: {
			"Service/historyserver",
			`"nodePort":30001`, `"loadBalancerSourceRanges":["10.0.0.0/8"]`},
		`{"monitoring":{"enabled":true,"namespace":"monitoring","labels":{"release":"prometheus"},"relabelings":[{"targetLabel":"x"}]}}`: {
			"ServiceMonitor/historyserver", `"namespace":"monitoring"`, `"release":"prometheus"`,
			`"relabelings":[{"targetLabel":"x"}]`, `"matchNames":["history"]`},
		`{"monitoring":{"enabled":true,"dashboardLabels":{"team":"ml"},"dashboardAnnotations":{"grafana_folder":"Ray"}}}`: {
			"ConfigMap/historyserver-dashboard", `"team":"ml"`, `"grafana_dashboard":"1"`, `"grafana_folder":"Ray"`},
		`{"collectors":{"prefix":"blue"}}`: {"ConfigMap/historyserver-webhook",
			`"RAYHISTORY_ENV_FROM_CONFIGMAP":"blue-storage"`},
		`{"collectors":{"prefix":"green"},"networkPolicy":{"collectors":true}}`: {"NetworkPolicy/green-collector"},
		`{"webhook":{"select":"namespaces","objectSelector":{"matchLabels":{"a":"b"}},"matchConditions":[{"name":"c","expression":"true"}]}}`: {
			"MutatingWebhookConfiguration/history-historyserver-webhook",
			`"namespaceSelector":{"matchLabels":{"ray.io/history":"true"}}`,
			`"objectSelector":{"matchExpressions":[{"key":"ray.io/history","operator":"NotIn","values":["false"]}],"matchLabels":{"a":"b"}}`,
			`"matchConditions":[{"expression":"true","name":"c"}]`, `"failurePolicy":"Ignore"`, `"timeoutSeconds":3`},
		`{"webhook":{"select":"all","namespaceSelector":{"matchExpressions":[{"key":"env","operator":"Exists"}]}}}`: {
			"MutatingWebhookConfiguration/history-historyserver-webhook",
			`"namespaceSelector":{"matchExpressions":[{"key":"ray.io/history","operator":"NotIn","values":["false"]},{"key":"env","operator":"Exists"}]}`},
		`{"webhook":{"inline":true},"collectors":{"settings":{"RAYHISTORY_PUSH_INTERVAL":"30s"}}}`: {
			"Deployment/historyserver-webhook", `"--env=S3_BUCKET=`, `"--env=RAYHISTORY_PUSH_INTERVAL=30s"`},
		`{"webhook":{"certManager":{"enabled":true,"issuerRef":{"kind":"ClusterIssuer","name":"company"}}}}`: {
			"Certificate/historyserver-webhook", `"issuerRef":{"kind":"ClusterIssuer","name":"company"}`,
			`"secretName":"historyserver-webhook-certificate"`},
		`{"webhook":{"certManager":{"enabled":true}}}`: {"Deployment/historyserver-webhook",
			`"--webhook-cert-dir=/etc/ray-history-webhook"`, `"secretName":"historyserver-webhook-certificate"`},
		`{"webhook":{"port":9444,"hostNetwork":true}}`: {"Deployment/historyserver-webhook", `"--webhook-listen=:9444"`,
			`"containerPort":9444`, `"hostNetwork":true`, `"dnsPolicy":"ClusterFirstWithHostNet"`, `"maxSurge":0`},
		`{"live":{"namespaces":["team"]}}`: {"Role/history-historyserver-live", `"namespace":"team"`, `"rayclusters"`},
	} {
		kind, name, _ := strings.Cut(want[0], "/")
		objects, err := render(t, example("s3"), "--set=webhook.enabled=true", "--set-json="+values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		o, ok := find(objects, kind, name)
		for _, text := range want[1:] {
			if !strings.Contains(o.text, text) {
				t.Errorf("%s: no %s in %s", values, text, o.text)
			}
		}
		if !ok {
			t.Errorf("%s: no %s", values, want[0])
		}
	}
}

// A server at another port, or with HTTPS that the chart knows nothing of, would be killed by its own probes.
func TestChartRefusesAServerThatProbesDoNotFind(t *testing.T) {
	for _, flag := range []string{"--tls-cert-file=/tls.crt", "--listen=:8443", "--listen", "--listen=127.0.0.1:8080"} {
		if _, err := render(t, example("s3"), "--set=extraArgs={"+flag+"}"); err == nil ||
			!strings.Contains(err.Error(), "tls.existingSecret") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// Where no keys let collectors into the store, the pods' account does, also where the account itself says nothing of it:
// on GKE and with EKS Pod Identity only the cloud knows.
func TestChartNamesTheAccountThatTheStoreLetsIn(t *testing.T) {
	for backend := range backends {
		values := []string{example(backend), "--set=storage.azureblob.accountURL=https://a.example.com"}
		objects := must.Get(render(t, append(values, "--set=webhook.enabled=true")...))(t)
		_, keys := find(objects, "Secret", "ray-history-storage")
		want := !keys && backend != "local"
		settings, _ := find(objects, "ConfigMap", "historyserver-webhook")
		if named := strings.Contains(settings.text, `"RAYHISTORY_SERVICE_ACCOUNT":"ray-history-collector"`); named != want {
			t.Errorf("%s: the webhook names the account: %t, want %t", backend, named, want)
		}
		notes := must.Get(exec.Command(buildcache.Helm(t), append(values, "install", "historyserver", chart,
			"--dry-run=client")...).Output())(t)
		if named := strings.Contains(string(notes), "--service-account=ray-history-collector"); named != want {
			t.Errorf("%s: the command for manifests names the account: %t, want %t", backend, named, want)
		}
	}
}

// The webhook's own settings may name keys, another account or none.
func TestChartNamesTheAccountOfTheWebhooksSettings(t *testing.T) {
	for setting, want := range map[string]string{
		"":                                `"RAYHISTORY_SERVICE_ACCOUNT":"ray-history-collector"`,
		"RAYHISTORY_SERVICE_ACCOUNT=own":  `"RAYHISTORY_SERVICE_ACCOUNT":"own"`,
		"RAYHISTORY_SERVICE_ACCOUNT=":     "",
		"RAYHISTORY_ENV_FROM_SECRET=keys": "",
	} {
		values := []string{example("gcs"), "--set=webhook.enabled=true"}
		if setting != "" {
			values = append(values, "--set=webhook.settings."+setting)
		}
		settings, _ := find(must.Get(render(t, values...))(t), "ConfigMap", "historyserver-webhook")
		if named := strings.Contains(settings.text, "RAYHISTORY_SERVICE_ACCOUNT"); named != (want != "") ||
			!strings.Contains(settings.text, want) {
			t.Errorf("%s: the settings are %s, want %q", setting, settings.text, want)
		}
	}
}

// A Kubernetes that does not know native sidecars would wait for the collector's end before it starts Ray.
func TestChartRefusesNativeSidecarsThatWouldBlockRay(t *testing.T) {
	for version, fails := range map[string]bool{"v1.28.9-gke.100": true, "v1.29.0-eks-1": false} {
		_, err := render(t, example("s3"), "--set=webhook.enabled=true,webhook.native=true", "--kube-version="+version)
		if (err != nil) != fails || fails && !strings.Contains(err.Error(), "webhook.native") {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// Tools that render and compare, such as Argo CD, find no change where there is none.
func TestChartIsTheSameAtEachRendering(t *testing.T) {
	args := []string{"template", "historyserver", chart, "--namespace=history", example("s3"), example("oidc"),
		example("company"), "--set=auth.oidc.existingSecret=,auth.oidc.clientSecret=s3cret,auth.oidc.cookieKey="}
	one := must.Get(exec.Command(buildcache.Helm(t), args...).Output())(t)
	two := must.Get(exec.Command(buildcache.Helm(t), args...).Output())(t)
	if diff := cmp.Diff(string(one), string(two)); diff != "" {
		t.Error(diff)
	}
	other := must.Get(exec.Command(buildcache.Helm(t),
		append(args, "--set=auth.oidc.clientSecret=other")...).Output())(t)
	key := func(rendered []byte) string {
		_, after, _ := strings.Cut(string(rendered), "cookie-key: ")
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	if len(key(one)) < 64 || key(one) == key(other) {
		t.Errorf("the cookies' key is %s, and %s of another secret", key(one), key(other))
	}
}

// Unless it is asked to, the chart restricts no port of Ray's pods: some network plugins would close all of them.
func TestChartRestrictsNoPorts(t *testing.T) {
	objects := must.Get(render(t, example("s3"), "--set=webhook.enabled=true,webhook.copy.settings=true"))(t)
	if o, ok := find(objects, "NetworkPolicy", "ray-history-collector"); ok {
		t.Error(o.text)
	}
	if o, ok := find(objects, "Deployment", "historyserver-webhook"); !ok || strings.Contains(o.text, "networkpolicies") {
		t.Error(o.text)
	}
}

// What `helm test` runs: the command of its pod, against a server at the address that the release's Service has. The
// pod itself does not run here, because the API server of the tests has no nodes.
func TestChartTest(t *testing.T) {
	objects := must.Get(render(t, example("local"), "--set=service.port=8123"))(t)
	service, ok := find(objects, "Service", "historyserver")
	if !ok || !strings.Contains(service.text, `"port":8123`) {
		t.Fatalf("the service is %s", service.text)
	}
	test, _ := find(objects, "Pod", "historyserver-test")
	var pod corev1.Pod
	must.OK(t, json.Unmarshal([]byte(test.text), &pod))
	command := func(address string) (string, error) {
		args := slices.Clone(pod.Spec.Containers[0].Args)
		i := slices.Index(args, "--server=http://historyserver:8123")
		if i < 0 {
			t.Fatalf("the test asks no server of this release: %q", args)
		}
		args[i] = "--server=http://" + address
		out, err := exec.Command(binary(t, "historyserver"), args...).CombinedOutput()
		return string(out), err
	}
	address := freeport.Address(t)
	if out, err := command(address); err == nil {
		t.Errorf("without a server the test passes: %s", out)
	}
	run(t, nil, "historyserver", "--listen="+address, "--storage-backend=local", "--local-dir="+t.TempDir(),
		"--live=off")
	lab.Eventually(t, "the test passes", func() bool { _, err := command(address); return err == nil })
}

// Two releases in one namespace, with collectors in the same namespaces, have nothing in common.
func TestChartTwice(t *testing.T) {
	l := lab.Start(t)
	l.Kubectl(t, "", "create", "namespace", "team")
	notes := l.Helm(t, "install", "notes", chart, "--dry-run=client", example("azureblob"),
		"--set=global.imageRegistry=g.io,storage.azureblob.accountURL=https://a.example.com,storage.azureblob.container=c")
	for _, flag := range []string{"--image=g.io/collector:", "--pod-label=azure.workload.identity/use=true"} {
		if !strings.Contains(notes, flag) {
			t.Errorf("the command that adds collectors has no %s: Ray's pods would not start, or nothing be stored", flag)
		}
	}
	for _, name := range []string{"blue", "green"} {
		l.Helm(t, "install", name, chart, "--namespace=history", "--create-namespace", example("minio"),
			"--set=webhook.enabled=true,autoscaling.enabled=true,collectors.namespaces={team},live.namespaces={team}",
			"--set=networkPolicy.collectors=true,collectors.prefix="+name+",storage.s3.bucket="+name)
	}
	l.Helm(t, "uninstall", "blue", "--namespace=history")
	for _, namespace := range []string{"history", "team"} {
		if bucket := l.Kubectl(t, "", "get", "configmap", "-n", namespace, "green-storage", "-o",
			"jsonpath={.data.S3_BUCKET}"); bucket != "green" {
			t.Errorf("namespace %s: the other release's collectors store in %q", namespace, bucket)
		}
		for _, what := range []string{"secret/green-storage", "serviceaccount/green-collector",
			"networkpolicy/green-collector"} {
			if out, err := l.Try(t, "", "get", "-n", namespace, what); err != nil {
				t.Errorf("namespace %s: %s", namespace, out)
			}
		}
	}
	if left := l.Kubectl(t, "", "get", "all,configmap,secret,serviceaccount,networkpolicy,role,clusterrole,hpa,pdb",
		"--all-namespaces", "-o", "name", "-l", "app.kubernetes.io/instance=blue"); left != "" {
		t.Errorf("blue leaves %s", left)
	}
}
