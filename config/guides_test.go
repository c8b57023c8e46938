// Package config_test compares the manifests of KubeRay's guides with what `make manifests` makes.
package config_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/kubernetes/inject"
)

// azurite is the well-known account of config/azurite.yaml.
const azurite = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;" +
	"AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;" +
	"BlobEndpoint=http://azurite-service.azurite-dev:10000/devstoreaccount1;"

// stores are the settings of the guides' stores.
var stores = map[string]inject.Options{
	"minio": {StorageBackend: "s3", Env: []string{
		"S3_BUCKET=ray-historyserver", "S3_ENDPOINT=http://minio-service.minio-dev:9000", "S3_REGION=us-east-1",
		"S3FORCE_PATH_STYLE=true",
		"AWS_ACCESS_KEY_ID=minioadmin", "AWS_SECRET_ACCESS_KEY=minioadmin", "RAYHISTORY_STORAGE_CREATE_BUCKET=true",
	}},
	"azurite": {StorageBackend: "azureblob", Env: []string{
		"AZURE_STORAGE_CONTAINER=ray-historyserver", "AZURE_STORAGE_CONNECTION_STRING=" + azurite,
		"RAYHISTORY_STORAGE_CREATE_BUCKET=true",
	}},
	"gcs": {StorageBackend: "gcs", Env: []string{"GCS_BUCKET=${GCS_BUCKET}"}, Image: "${COLLECTOR_IMAGE}",
		ServiceAccount: "historyserver"},
	"aliyunoss": {
		StorageBackend: "aliyunoss", ConfigMap: "aliyunoss-config", ServiceAccount: "ray-history-collector",
		PodLabels: map[string]string{"pod-identity.alibabacloud.com/injection": "on"},
	},
}

// guides are the files, by name, with the sample that each is made from, its store, and what the guides call the
// object.
var guides = map[string]struct{ sample, store, name string }{
	"raycluster.yaml":                  {"raycluster.yaml", "minio", "raycluster-historyserver"},
	"raycluster-azureblob.yaml":        {"raycluster.yaml", "azurite", "raycluster-historyserver-azureblob"},
	"raycluster-gcs.yaml":              {"raycluster.yaml", "gcs", "raycluster-historyserver"},
	"samples/aliyuncs/raycluster.yaml": {"raycluster.yaml", "aliyunoss", "raycluster-historyserver"},
	"rayjob.yaml":                      {"rayjob.yaml", "minio", "rayjob-historyserver"},
	"rayjob-azureblob.yaml":            {"rayjob.yaml", "azurite", "rayjob-historyserver-azureblob"},
	"rayjob-gcs.yaml":                  {"rayjob.yaml", "gcs", "rayjob-historyserver-gcs"},
}

// TestGuides: the files with Ray's objects are what inject makes of the samples. UPDATE_MANIFESTS=1 writes them. Those
// of the history server come from the chart and need Helm: test/kube.
func TestGuides(t *testing.T) {
	for file, g := range guides {
		t.Run(file, func(t *testing.T) {
			sample, err := os.ReadFile("samples/" + g.sample)
			must.OK(t, err)
			o, store := inject.Default(), stores[g.store]
			o.StorageBackend, o.Env, o.ConfigMap = store.StorageBackend, store.Env, store.ConfigMap
			o.ServiceAccount, o.PodLabels = store.ServiceAccount, store.PodLabels
			if store.Image != "" {
				o.Image = store.Image
			} else if err := o.Check(); err != nil {
				t.Fatal(err)
			}
			named := strings.ReplaceAll(string(sample), strings.TrimSuffix(g.sample, ".yaml")+"-historyserver", g.name)
			out, changes, err := inject.Manifest([]byte(named), o)
			must.OK(t, err)
			must.True(t, len(changes) == 1 && len(changes[0].Done) == 2 && len(changes[0].Warnings) == 0, "%+v",
				changes)
			// A bucket's name may be a number.
			out = bytes.ReplaceAll(out, []byte("value: ${GCS_BUCKET}"), []byte(`value: "${GCS_BUCKET}"`))
			want := "# Made by `make manifests` from config/samples/" + g.sample +
				" by `collector inject`: change that, not this.\n"
			if g.store == "gcs" {
				want += "# Apply it with your bucket and image:  envsubst < config/" + file + " | kubectl apply -f -\n"
			}
			compare(t, file, want+string(out))
		})
	}
}

func compare(t *testing.T, file, want string) {
	t.Helper()
	if os.Getenv("UPDATE_MANIFESTS") != "" {
		must.OK(t, os.WriteFile(file, []byte(want), 0o644))
	}
	got := must.Get(os.ReadFile(file))(t)
	diff := cmp.Diff(want, string(got))
	says.True(t, diff == "", "config/%s is not up to date, run `make manifests` (-want +got):\n%s", file, diff)
}
