package backend

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"github.com/spf13/pflag"

	"github.com/rayhistory/historyserver/internal/settings"
	"github.com/rayhistory/historyserver/internal/testkit/docblock"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func load(t *testing.T, args, env []string) (Config, error) {
	t.Helper()
	var c Config
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		return c, err
	}
	return c, settings.Load(fs, env)
}

func TestKubeRaySpellings(t *testing.T) {
	for _, args := range [][]string{
		{"--storage-backend=LocalTest", "--storage-root-dir=/history/"},
		{"--runtime-class-name=LocalTest", "--ray-root-dir=history"},
	} {
		c, err := load(t, args, nil)
		says.True(t, err == nil && c.Backend == "LocalTest" && c.Root == "history", "%q: %+v, %v", args, c, err)
	}
	// of 1.7 and before, and of later ones
	for _, root := range []string{"RAY_ROOT_DIR=a/b", "STORAGE_ROOT_DIR=/a/b/"} {
		c, err := load(t, nil, []string{"STORAGE_BACKEND=localtest", root})
		says.True(t, err == nil && c.Backend == "localtest" && c.Root == "a/b", "from the environment: %+v, %v", c, err)
	}
	if c, err := load(t, []string{"--ray-root-dir="}, nil); err != nil || c.Root != "log" {
		t.Errorf("without a root: %+v, %v", c, err)
	}
	says.True(t, says.Err(load(t, []string{"--ray-root-dir=../x"}, nil)) != nil, "a root above the bucket is accepted")
}

// Newer collectors of KubeRay's store at the top of the bucket by default.
func TestTopOfTheBucket(t *testing.T) {
	dir := t.TempDir()
	c := must.Get(load(t, []string{"--local-dir", dir, "--storage-root-dir=/"}, nil))(t)
	store := must.Get(Open(t.Context(), c, logrus.New()))(t)
	must.OK(t, store.Create(t.Context(), c.Root+"/metadir/x", strings.NewReader("")))
	says.OK(t, says.Err(os.Stat(filepath.Join(dir, "metadir", "x"))))
}

// TestPlaces: people are told where things are in the bucket, not by which keys the programs ask for them.
func TestPlaces(t *testing.T) {
	for _, test := range []struct {
		args          []string
		describe, key string
	}{
		{[]string{"--local-dir=data"}, "the local folder data, below log/", "log/metadir/x"},
		{[]string{"--storage-backend=LocalTest", "--local-dir=data", "--storage-root-dir=/"}, "the local folder data",
			"metadir/x"},
		{[]string{"--storage-backend=S3", "--storage-prefix=team-a/"}, "the s3 backend, below team-a/log/",
			"team-a/log/metadir/x"},
		{[]string{"--storage-backend=gcs", "--storage-prefix=team-a/", "--storage-root-dir=/"},
			"the gcs backend, below team-a/", "team-a/metadir/x"},
	} {
		c := must.Get(load(t, test.args, nil))(t)
		if describe, key := c.Describe(), c.BucketKey(c.Root+"/metadir/x"); describe != test.describe ||
			key != test.key {
			t.Errorf("%q: %q, %q", test.args, describe, key)
		}
	}
}

// TestIsAt: a place is the same however its folder is written and whoever asks; another bucket or prefix is another.
func TestIsAt(t *testing.T) {
	s3 := []string{"--storage-backend=s3", "--s3-bucket=b", "--s3-region=eu-west-1"}
	azure := func(account string) []string {
		return []string{"--storage-backend=azureblob", "--azure-container=b",
			"--azure-connection-string=AccountName=" + account + ";AccountKey=aHVzaA=="}
	}
	for _, test := range []struct {
		one, other []string
		want       bool
	}{
		{[]string{"--local-dir=data"}, []string{"--local-dir=./x/../data/", "--storage-backend=LOCAL"}, true},
		{[]string{"--local-dir=data"}, []string{"--local-dir=data2"}, false},
		{[]string{"--local-dir=data"}, []string{"--local-dir=data", "--storage-root-dir=other"}, false},
		{s3, append(slices.Clone(s3), "--s3-access-key-id=me", "--local-dir=elsewhere"), true},
		{s3, append(slices.Clone(s3), "--storage-prefix=team-a/"), false},
		{s3, append(slices.Clone(s3), "--s3-bucket=c"), false},
		{s3, append(slices.Clone(s3), "--s3-endpoint=minio:9000"), false},
		{s3, append(slices.Clone(s3), "--s3-profile=minio"), false},
		{s3, append(slices.Clone(s3), "--s3-region=cn-north-1"), false},
		{azure("one"), azure("one"), true},
		{azure("one"), azure("two"), false},
	} {
		one, other := must.Get(load(t, test.one, nil))(t), must.Get(load(t, test.other, nil))(t)
		says.True(t, one.IsAt(&other) == test.want && other.IsAt(&one) == test.want, "%q and %q: want %v", test.one,
			test.other, test.want)
	}
}

func TestOpen(t *testing.T) {
	c := must.Get(load(t, []string{"--local-dir", t.TempDir(), "--storage-backend=LOCAL"}, nil))(t)
	says.OK(t, says.Err(Open(t.Context(), c, logrus.New())))
	c.Backend = "ftp"
	says.Error(t, says.Err(Open(t.Context(), c, logrus.New())), `"ftp": want aliyunoss, `, "unknown backend")
}

// TestBucketsAreNamedAndMadeOnRequest: names are taken from a space that all the world shares, so neither is a name
// guessed nor a bucket made.
func TestBucketsAreNamedAndMadeOnRequest(t *testing.T) {
	for name, tc := range map[string]struct{ args, want []string }{
		"s3": {[]string{"--storage-backend=s3", "--s3-region=eu-west-1"}, []string{"--s3-bucket", "S3_BUCKET"}},
		"gcs": {[]string{"--storage-backend=gcs", "--gcs-endpoint=http://127.0.0.1:1"},
			[]string{"--gcs-bucket", "GCS_BUCKET"}},
		"azure": {[]string{"--storage-backend=azureblob", "--azure-account-url=http://127.0.0.1:1/account"},
			[]string{"--azure-container", "AZURE_STORAGE_CONTAINER"}},
		"oss": {[]string{"--storage-backend=aliyunoss", "--oss-region=cn-hangzhou", "--oss-access-key-id=id",
			"--oss-access-key-secret=hush"}, []string{"--oss-bucket", "OSS_BUCKET"}},
	} {
		c, err := load(t, tc.args, nil)
		must.OK(t, err)
		says.True(t, !c.CreateBucket, "%s: a bucket would be made", name)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err = Open(ctx, c, logrus.New())
		cancel()
		for _, want := range tc.want {
			says.Error(t, err, want, "%s without a bucket: %v, want it to name %s", name, err, want)
		}
	}
}

// TestNamesOfBuckets: what is more than a name would become part of keys and URLs.
func TestNamesOfBuckets(t *testing.T) {
	for _, args := range [][]string{
		{"--storage-backend=s3", "--s3-bucket=s3://history"}, {"--storage-backend=s3", "--s3-bucket=history/team"},
		{"--storage-backend=gcs", "--gcs-bucket=gs://history"}, {"--storage-backend=aliyunoss", "--oss-bucket=history/"},
		{"--storage-backend=azureblob", "--azure-container=history/team"},
		{"--storage-backend=s3", `--s3-bucket="history"`}, // docker's --env-file keeps quotes
	} {
		c := must.Get(load(t, args, nil))(t)
		flag, _, _ := strings.Cut(args[1], "=")
		if _, err := Open(t.Context(), c, logrus.New()); err == nil || !strings.Contains(err.Error(), flag) ||
			!strings.Contains(err.Error(), "--storage-prefix") {
			t.Errorf("%q: %v", args, err)
		}
	}
	for args, mistake := range map[string]string{
		"--s3-bucket=history":                                        "set --storage-backend=s3",
		"--storage-backend=Local --gcs-bucket=history":               "set --storage-backend=gcs",
		"--s3-bucket=history --local-dir=x":                          "",
		"--s3-bucket=history --local-dir=./data":                     "",
		"--local-dir=~/history":                                      "expanded",
		"--local-dir=file:///history":                                "a folder's path",
		"--local-dir='/history'":                                     "without quotes",
		"--local-dir=$HOME/history":                                  "expanded",
		"--local-dir=/mnt/a~b/$x":                                    "",
		"--storage-backend=gcs --gcs-bucket=history --s3-bucket=old": "",
	} {
		c := must.Get(load(t, strings.Fields(args), nil))(t)
		err := c.CheckBucket()
		if mistake == "" && err != nil || mistake != "" && (err == nil || !strings.Contains(err.Error(), mistake)) {
			t.Errorf("%s: %v, want %q", args, err, mistake)
		}
	}
	for _, name := range []string{"arn:aws:s3:eu-west-1:123456789012:accesspoint/history", "team:history"} {
		c := must.Get(load(t, []string{"--storage-backend=s3", "--s3-bucket=" + name}, nil))(t)
		must.OK(t, c.CheckBucket())
	}
}

// TestKubeRayFile: a ConfigMap as KubeRay's documentation shows it, booleans in quotes, together with its environment
// variables.
func TestKubeRayFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	const content = `{"s3Bucket":"history","s3Endpoint":"minio:9000","s3Region":"eu-west-1","s3ForcePathStyle":"true","s3DisableSSL":"true",
		"gcsBucket":"g","azureContainer":"a","azureAccountURL":"https://a.example.com","azureAuthMode":"default","ossBucket":"o","ossEndpoint":"e","ossRegion":"r"}`
	must.OK(t, os.WriteFile(file, []byte(content), 0o600))
	c, err := load(t, []string{"--runtime-class-name=s3", "--runtime-class-config-path=" + file},
		[]string{"AWS_S3ID=id", "AWS_S3SECRET=secret", "AWS_S3TOKEN=token", "S3_REGION=eu-west-2", "GCP_PROJECT_ID=p"})
	must.OK(t, err)
	if c.S3.Bucket != "history" || c.S3.Endpoint != "minio:9000" || c.S3.Region != "eu-west-2" || !c.S3.PathStyle ||
		!c.S3.DisableSSL ||
		c.S3.AccessKeyID != "id" || c.S3.SecretAccessKey != "secret" || c.S3.SessionToken != "token" {
		t.Errorf("S3: %+v", c.S3)
	}
	if c.GCS.Bucket != "g" || c.GCS.Project != "p" || c.Azure.Container != "a" ||
		c.Azure.AccountURL != "https://a.example.com" || c.Azure.AuthMode != "default" ||
		c.OSS.Bucket != "o" || c.OSS.Endpoint != "e" || c.OSS.Region != "r" {
		t.Errorf("GCS: %+v, Azure: %+v, OSS: %+v", c.GCS, c.Azure, c.OSS)
	}
}

// TestUnreachableStoreIsAWarning: a collector whose store is away takes what it is sent.
func TestUnreachableStoreIsAWarning(t *testing.T) {
	c, err := load(t, []string{"--storage-backend=s3", "--s3-bucket=history", "--s3-endpoint=http://127.0.0.1:1",
		"--s3-access-key-id=id", "--s3-secret-access-key=hush", "--storage-prefix=team/"}, nil)
	must.OK(t, err)
	log, hook := test.NewNullLogger()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	must.Get(Open(ctx, c, log))(t)
	entry := hook.LastEntry()
	says.True(t, entry != nil && entry.Level == logrus.WarnLevel && !strings.Contains(fmt.Sprint(entry.Data), "hush"),
		"logged %+v", entry)
}

// TestDocs: the table of settings in the documentation is that of the code. UPDATE_DOCS=1 writes it.
func TestDocs(t *testing.T) {
	var c Config
	fs := pflag.NewFlagSet("storage", pflag.ContinueOnError)
	c.AddFlags(fs)
	var want strings.Builder
	must.OK(t, settings.WriteTable(&want, fs))
	docblock.Keep(t, "../../../docs/backends.md", "settings", want.String())
}

// TestSchemeOfAnEndpoint: a server that does not speak TLS, at an address that does not say so.
func TestSchemeOfAnEndpoint(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	for flag, args := range map[string][]string{
		"s3-endpoint": {"--storage-backend=s3", "--s3-bucket=b", "--s3-endpoint=" + address,
			"--s3-access-key-id=id", "--s3-secret-access-key=secret", "--s3-force-path-style"},
		"azure-account-url": {"--storage-backend=azureblob", "--azure-container=c", "--azure-account=a",
			"--azure-account-key=c2VjcmV0", "--azure-account-url=https://" + address + "/a"},
		"oss-endpoint": {"--storage-backend=aliyunoss", "--oss-bucket=bucket", "--oss-endpoint=" + address,
			"--oss-access-key-id=id", "--oss-access-key-secret=secret"},
	} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			c := must.Get(load(t, args, nil))(t)
			c.Unchecked = true
			store := must.Get(Open(t.Context(), c, logrus.New()))(t)
			for _, err := range store.List(t.Context(), "", blob.ListOptions{}) {
				says.Error(t, err, "write http:// before the address in --"+flag)
				return
			}
			t.Error("no error")
		})
	}
}

// TestWhiteSpace: a Secret made by echo ends in a line break, and SDKs read some variables themselves.
func TestWhiteSpace(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Authorization")
		_, _ = fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
	}))
	defer server.Close()
	for name, test := range map[string]struct{ env, ofSDK []string }{
		"settings": {env: []string{"AWS_S3ID=me\n", "AWS_S3SECRET= secret \n", "S3_REGION=eu-west-1\t"}},
		"the SDK's": {ofSDK: []string{"AWS_ACCESS_KEY_ID=me\n", "AWS_SECRET_ACCESS_KEY= secret \n",
			"AWS_REGION=eu-west-1\t"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range test.ofSDK {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			c := must.Get(load(t, []string{"--storage-backend= s3", "--s3-bucket=b\n", "--s3-force-path-style",
				"--s3-endpoint=" + server.URL + " "}, test.env))(t)
			c.Unchecked = true
			store := must.Get(Open(t.Context(), c, logrus.New()))(t)
			for _, err := range store.List(t.Context(), "", blob.ListOptions{}) {
				t.Error(err)
			}
			says.All(t, asked, "Credential=me/", "/eu-west-1/")
		})
	}
}

// TestMissingCredentials: where there are no credentials, or whoever gives them refuses, the error says that first,
// once and in a line, and what to set; it asks for no permission of the store, which was not even asked.
func TestMissingCredentials(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"error":"unauthorized_client","error_description":"no such account"}`)
	}))
	defer refusing.Close()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG"} {
		t.Setenv(name, filepath.Join(dir, "none"))
	}
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", refusing.URL)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(refusing.URL, "http://"))
	t.Setenv("PATH", dir)
	token := filepath.Join(dir, "token")
	must.OK(t, os.WriteFile(token, []byte("a token"), 0o600))
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string // of the SDK
		want string            // in the error
	}{
		"s3": {[]string{"--storage-backend=s3", "--s3-bucket=b", "--s3-region=eu-west-1",
			"--s3-endpoint=" + refusing.URL}, nil, "--s3-access-key-id"},
		"s3, role": {[]string{"--storage-backend=s3", "--s3-bucket=b", "--s3-region=eu-west-1"},
			map[string]string{"AWS_ROLE_ARN": "arn:aws:iam::1:role/a", "AWS_WEB_IDENTITY_TOKEN_FILE": token,
				"AWS_ENDPOINT_URL_STS": refusing.URL}, "--s3-access-key-id"},
		"gcs": {[]string{"--storage-backend=gcs", "--gcs-bucket=b", "--gcs-endpoint=https://127.0.0.1:1"}, nil,
			"--gcs-credentials-file"},
		"azure": {[]string{"--storage-backend=azureblob", "--azure-container=c",
			"--azure-account-url=https://127.0.0.1:1/a"},
			map[string]string{"IDENTITY_ENDPOINT": refusing.URL, "IDENTITY_HEADER": "x"}, "--azure-account-key"},
		"oss, none": {[]string{"--storage-backend=aliyunoss", "--oss-bucket=bucket", "--oss-region=cn-hangzhou"}, nil,
			"--oss-access-key-id"},
		"oss, role": {[]string{"--storage-backend=aliyunoss", "--oss-bucket=bucket", "--oss-region=cn-hangzhou",
			"--oss-role-arn=role", "--oss-oidc-provider-arn=provider", "--oss-oidc-token-file=" + token,
			"--oss-sts-endpoint=" + refusing.URL}, nil, "--oss-role-arn"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tc.env {
				t.Setenv(variable, value)
			}
			c, err := load(t, tc.args, nil)
			must.OK(t, err)
			var told bytes.Buffer
			log := logrus.New()
			log.SetOutput(&told)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			s, err := Open(ctx, c, log)
			if err == nil {
				for _, err = range s.List(ctx, "log/", blob.ListOptions{}) {
					break
				}
			}
			must.True(t, err != nil, "there are no credentials, and no error")
			text := err.Error()
			at := strings.Index(text, "no credentials")
			if at < 0 || at > 40 || strings.Count(text, "no credentials") > 1 || !strings.Contains(text, tc.want) ||
				strings.Contains(text, "grant ") || strings.ContainsAny(text, "\n\t") {
				t.Errorf("want \"no credentials\" first, and %s: %s", tc.want, text)
			}
		})
	}
}
