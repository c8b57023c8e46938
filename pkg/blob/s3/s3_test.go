package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

func TestConfigIsChecked(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/nonexistent")
	good := Config{Bucket: "b", Endpoint: "minio:9000", AccessKeyID: "id", SecretAccessKey: "hush"}
	for name, test := range map[string]struct {
		change func(*Config)
		err    string
	}{
		"good":               {func(*Config) {}, ""},
		"a directory bucket": {func(c *Config) { c.Bucket = "b--use1-az5--x-s3" }, "general purpose bucket"},
		"no region":          {func(c *Config) { c.Endpoint = "" }, "--s3-region"},
		"half a key":         {func(c *Config) { c.SecretAccessKey = "" }, "--s3-secret-access-key"},
		"key and profile":    {func(c *Config) { c.Profile = "p" }, "--s3-profile"},
		"not a URL":          {func(c *Config) { c.Endpoint = "ftp://x" }, "--s3-endpoint"},
		"bucket in the URL":  {func(c *Config) { c.Endpoint += "/b/" }, "--s3-endpoint"},
		"query in the URL":   {func(c *Config) { c.Endpoint += "/?region=auto" }, "--s3-endpoint"},
		"account in the URL": {func(c *Config) { c.Endpoint = "http://id:hush@minio:9000" }, "--s3-endpoint"},
		"SSL off over https://": {func(c *Config) { c.Endpoint, c.DisableSSL = "https://minio:9000", true },
			"--s3-disable-ssl"},
		"a header without value": {func(c *Config) { c.Headers = "x-amz-acl" }, "--s3-headers"},
		"another header":         {func(c *Config) { c.Headers = "x-amz-acl=private,host=hush" }, "--s3-headers"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			_, err := Open(t.Context(), c, logrus.New())
			if (err == nil) != (test.err == "") || (err != nil &&
				(!strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hush"))) {
				t.Errorf("got %v, want an error with %q", err, test.err)
			}
		})
	}
}

// TestKeysOfAFile: keys that are renewed in the file that the SDK reads are used some minutes later. Until then the
// last ones are, also where the file has none, and a role is there.
func TestKeysOfAFile(t *testing.T) {
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"AccessKeyId": "role", "SecretAccessKey": "hush", "Token": "hush",
			"Expiration": "2999-01-01T00:00:00Z"}`)
	}))
	defer role.Close()
	file := filepath.Join(t.TempDir(), "credentials")
	for name, value := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_CONFIG_FILE": "/nonexistent",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI": role.URL} {
		t.Setenv(name, value)
	}
	synctest.Test(t, func(t *testing.T) {
		write := func(text string) {
			t.Helper()
			must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		}
		keys := func(id string) string {
			return "[default]\naws_access_key_id = " + id + "\naws_secret_access_key = hush\n"
		}
		write(keys("first"))
		s := must.Get(Open(t.Context(), Config{Bucket: "b", Endpoint: "minio:9000"}, silent.Logger()))(t)
		want := func(id string) {
			t.Helper()
			got, err := s.client.Options().Credentials.Retrieve(t.Context())
			says.True(t, err == nil && got.AccessKeyID == id, "the key is %q, %v, want %q", got.AccessKeyID, err, id)
		}
		want("first")
		for _, step := range []struct{ text, want string }{{keys("second"), "second"}, {keys("third"), "third"},
			{"", "third"}, {"[default]\naws_access_key_id = half\n", "third"}, {"[default", "third"},
			{keys("fourth"), "fourth"}} {
			write(step.text)
			time.Sleep(renewTime + time.Second)
			want(step.want)
		}
		must.OK(t, os.Remove(file))
		time.Sleep(renewTime + time.Second)
		want("fourth")
		write(keys("fifth"))
		time.Sleep(renewTime + time.Second)
		want("fifth")
	})
}

// TestPauses: a request that is refused for now is sent again after the pause that the store asks for, or a part of it
// where little time is left.
func TestPauses(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{time.Hour: 15 * time.Second, 20 * time.Second: 5 * time.Second} {
		t.Run(left.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := must.Get(Open(t.Context(), Config{Bucket: "b", Endpoint: "minio:9000", AccessKeyID: "id",
					SecretAccessKey: "hush"}, silent.Logger()))(t)
				requests := 0
				options := s.client.Options()
				options.HTTPClient = doer(func(r *http.Request) *http.Response {
					answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Etag": {`"1"`}},
						Body: http.NoBody, Request: r}
					if requests++; requests == 1 {
						answer.StatusCode = http.StatusTooManyRequests
						answer.Header.Set("Retry-After", "120")
					}
					return answer
				})
				s.client = awss3.New(options)
				ctx, cancel := context.WithTimeout(t.Context(), left)
				defer cancel()
				began := time.Now()
				_, err := s.put(ctx, "key", strings.NewReader(""), 0, false)
				took := time.Since(began)
				says.True(t, err == nil && requests == 2 && took >= want && took <= want+remote.MinDelay,
					"%v after %d requests and %s, want another after %s", err, requests, took, want)
			})
		})
	}
}

type doer func(*http.Request) *http.Response

func (f doer) Do(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestRefusedKeys: credentials that the store refuses before their time are asked for anew, and not more often for each
// refusal. Those of a role are valid for an hour, also where this machine's clock is slow.
func TestRefusedKeys(t *testing.T) {
	for code, want := range map[string]int{"ExpiredToken": 2, "InvalidToken": 2, "InvalidAccessKeyId": 2,
		"SignatureDoesNotMatch": 1, "AccessDenied": 1} {
		t.Run(code, func(t *testing.T) {
			asked := 0
			role := blobtest.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
				asked++
				fmt.Fprintf(w, `{"AccessKeyId": "role-%d", "SecretAccessKey": "hush", "Token": "hush",
					"Expiration": "2999-01-01T00:00:00Z"}`, asked)
			})
			for name, value := range map[string]string{"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
				"AWS_CONFIG_FILE": "/nonexistent", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
				"AWS_PROFILE": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": role} {
				t.Setenv(name, value)
			}
			refused := func(key string) bool { return key == "role-1" }
			store := blobtest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, key, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
				if key, _, _ = strings.Cut(key, "/"); refused(key) {
					w.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
					return
				}
				_, _ = io.WriteString(w, "<ListBucketResult><Name>b</Name></ListBucketResult>")
			})
			s := must.Get(Open(t.Context(), Config{Bucket: "b", Endpoint: store, PathStyle: true}, silent.Logger()))(t)
			says.True(t, blobtest.Listed(t, s) != nil, "the first credentials are taken")
			err := blobtest.Listed(t, s)
			says.True(t, (err == nil) == (want == 2), "the next: %v", err)
			refused = func(string) bool { return true }
			for range 3 {
				_ = blobtest.Listed(t, s)
			}
			says.Equal(t, asked, want, "asked for credentials")
		})
	}
}

func TestEndpoint(t *testing.T) {
	for _, test := range []struct {
		endpoint   string
		disableSSL bool
		want       string
	}{
		{"", true, ""},
		{"minio:9000", false, "https://minio:9000"},
		{"minio:9000", true, "http://minio:9000"},
		{"http://minio:9000", false, "http://minio:9000"},
		{"https://s3.example.com/base", false, "https://s3.example.com/base"},
	} {
		c := Config{Endpoint: test.endpoint, DisableSSL: test.disableSSL}
		if got, err := c.endpoint(); err != nil || got != test.want {
			t.Errorf("%q, SSL off %v: %q, %v; want %q", test.endpoint, test.disableSSL, got, err, test.want)
		}
	}
}

// oldServer is an S3 server from before conditional writes: it overwrites, or with refuse set does not know the header.
type oldServer struct {
	refuse  int // the status of a request with a condition; 0: it is ignored
	objects map[string]string
	puts    int
}

func (s *oldServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	if r.Method == http.MethodPut {
		s.puts++
		if s.refuse != 0 && r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(s.refuse)
			_, _ = io.WriteString(w, "<Error><Code>NotImplemented</Code>"+
				"<Message>Unsupported header 'If-None-Match' received</Message></Error>")
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.objects[key] = string(body)
		return
	}
	prefix := r.URL.Query().Get("prefix")
	_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated>")
	if _, ok := s.objects[prefix]; ok {
		_, _ = io.WriteString(w, "<Contents><Key>"+prefix+"</Key></Contents>")
	}
	_, _ = io.WriteString(w, "</ListBucketResult>")
}

func TestServersThatIgnoreConditions(t *testing.T) {
	for name, refuse := range map[string]int{"overwrites": 0, "refuses": http.StatusNotImplemented,
		"refuses by name": http.StatusBadRequest} {
		t.Run(name, func(t *testing.T) {
			server := &oldServer{refuse: refuse, objects: map[string]string{}}
			web := httptest.NewServer(server)
			defer web.Close()
			log, hook := test.NewNullLogger()
			s := must.Get(Open(t.Context(), Config{Bucket: "bucket", Endpoint: web.URL, PathStyle: true,
				AccessKeyID: "id", SecretAccessKey: "secret"}, log))(t)
			for _, key := range []string{"a", "b", "c"} {
				says.OK(t, s.Create(t.Context(), key, strings.NewReader("first")))
				says.True(t, s.Create(t.Context(), key, strings.NewReader("second")) != nil, "%s was created twice",
					key)
				says.Equal(t, server.objects[key], "first", "%s holds", key)
			}
			says.True(t, server.puts == 4 && len(hook.Entries) == 1 &&
				strings.Contains(hook.LastEntry().Message, "If-None-Match"),
				"%d puts, warnings %v; want one put for each key, one to learn and one warning", server.puts,
				hook.Entries)
		})
	}
}

// at is a driver whose server answers as answer does.
func at(t *testing.T, bucket string, answer http.HandlerFunc) *Store {
	t.Helper()
	return must.Get(Open(t.Context(), Config{Bucket: bucket, Endpoint: blobtest.Serve(t, answer), PathStyle: true,
		AccessKeyID: "id", SecretAccessKey: "hush"}, silent.Logger()))(t)
}

func TestErrorsNameThePermission(t *testing.T) {
	s := at(t, "bucket", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
	})
	_, getErr := s.Get(t.Context(), "key", 0, -1)
	for permission, err := range map[string]error{
		"s3:GetObject": getErr, "s3:ListBucket": blobtest.Listed(t, s),
		"s3:PutObject":    s.Put(t.Context(), "key", strings.NewReader("x")),
		"s3:DeleteObject": s.Delete(t.Context(), "key"),
	} {
		says.True(t, err != nil &&
			strings.Contains(err.Error(), "permission denied: grant "+permission+" on bucket bucket") &&
			!strings.Contains(err.Error(), "hush"), "%s: %v", permission, err)
	}
}

// TestAnswersOfOtherServers: a good status from what is no S3 server (a console's port, a proxy's page) stores nothing
// and is no empty bucket.
func TestAnswersOfOtherServers(t *testing.T) {
	for name, body := range map[string]string{"page": blobtest.SignIn, "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			s := at(t, "bucket", blobtest.Page(body))
			blobtest.NoStore(t, s, "--s3-endpoint")
			says.Error(t, says.Err(s.Get(t.Context(), "log/a", 0, -1)), "proxy", "get")
		})
	}
}

// TestUndescribedObjects: what a server does not tell of an object, such as behind a proxy that leaves out headers, is
// not taken for 0 bytes or for a time of long ago, by which a lease would have expired.
func TestUndescribedObjects(t *testing.T) {
	for missing, header := range map[string]string{"Content-Length": "Last-Modified", "Last-Modified": "Content-Length"} {
		s := at(t, "bucket", func(w http.ResponseWriter, _ *http.Request) {
			value := map[string]string{"Last-Modified": "Fri, 20 Nov 2026 23:19:45 GMT", "Content-Length": "4"}
			w.Header().Set(header, value[header])
		})
		o, err := s.Stat(t.Context(), "key")
		says.ErrorIs(t, err, remote.ErrUndescribed, "without %s: %+v", missing, o)
	}
}

// TestWholeObject: a server may answer a request for a part of an object with all of it.
func TestWholeObject(t *testing.T) {
	s := at(t, "bucket", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"1"`)
		_, _ = io.WriteString(w, "0123456789")
	})
	for length, want := range map[int64]string{-1: "0123456789", 4: "0123", 20: "0123456789"} {
		body := must.Get(s.Get(t.Context(), "key", 0, length))(t)
		got := must.Get(io.ReadAll(body))(t)
		says.True(t, string(got) == want, "%d bytes: %q, want %q", length, got, want)
		_ = body.Close()
	}
	says.True(t, says.Err(s.Get(t.Context(), "key", 5, -1)) != nil, "its beginning was taken for a later part")
}

// TestListingsThatAreNotFound: what a server whose URL has the bucket says of a listing is not that there is nothing.
// An S3 server that lacks what holds the objects says so itself.
func TestListingsThatAreNotFound(t *testing.T) {
	for code, isS3 := range map[string]bool{"NoSuchKey": false, "": false, "NoSuchBucket": true,
		"NoSuchAccessPoint": true} {
		listed := blobtest.Listed(t, at(t, "team:bucket", func(w http.ResponseWriter, r *http.Request) {
			says.True(t, strings.HasPrefix(r.URL.Path, "/team:bucket"), "the bucket is asked for at %s", r.URL)
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>"+code+"</Code></Error>")
		}))
		says.True(t, listed != nil && errors.Is(listed, errNotS3) != isS3 && strings.Contains(listed.Error(), code) &&
			!errors.Is(listed, os.ErrNotExist), "list, %q: %v", code, listed)
	}
}

// TestHeaders: what lies before a server may change Accept-Encoding, so no signature has it, and a server other than
// Amazon's gets the MD5 sum of each body.
func TestHeaders(t *testing.T) {
	requests := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := must.Get(io.ReadAll(r.Body))(t)
		sum := md5.Sum(body)
		if r.Header.Get("Accept-Encoding") != "" || !strings.Contains(r.Header.Get("Authorization"), "SignedHeaders=") ||
			r.Method == http.MethodPut && r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]) {
			t.Errorf("%s %s: %v", r.Method, r.URL, r.Header)
		}
		requests[r.Method]++
		w.Header().Set("ETag", `"1"`)
		switch {
		case r.Method == http.MethodPost && r.URL.Query().Has("uploads"):
			_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"2"</ETag></CompleteMultipartUploadResult>`)
		case r.URL.Query().Has("list-type"):
			_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, "content")
		case r.Method == http.MethodHead:
			w.Header().Set("Content-Length", "7")
			w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 23:19:45 GMT")
		}
	}))
	defer web.Close()
	s := must.Get(Open(t.Context(), Config{Bucket: "bucket", Endpoint: web.URL, PathStyle: true, AccessKeyID: "id",
		SecretAccessKey: "hush"}, silent.Logger()))(t)
	must.OK(t, s.Put(t.Context(), "key", strings.NewReader("content")))
	must.OK(t, s.uploadParts(t.Context(), "key", strings.NewReader("content"), 7, false))
	must.OK(t, must.Get(s.Get(t.Context(), "key", 0, -1))(t).Close())
	must.Get(s.Stat(t.Context(), "key"))(t)
	must.OK(t, blobtest.Listed(t, s))
	must.OK(t, s.Delete(t.Context(), "key"))
	want := map[string]int{"PUT": 2, "POST": 2, "GET": 2, "HEAD": 1, "DELETE": 1}
	says.True(t, maps.Equal(requests, want), "requests %v, want %v", requests, want)
}

// TestLockedBuckets: Amazon's buckets with an object lock want a checksum with each object, at its endpoints of other
// names, too. Other servers get none, which some refuse (TestHeaders: they get MD5 sums).
func TestLockedBuckets(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"https://s3.eu-west-1.amazonaws.com": true, "https://bucket.vpce-1a-2b.s3.eu-west-1.vpce.amazonaws.com": true,
		"https://s3.cn-north-1.amazonaws.com.cn:443": true, "http://minio:9000": false,
		"https://amazonaws.com.example.com": false,
	} {
		s := must.Get(Open(t.Context(), Config{Bucket: "bucket", Endpoint: endpoint, AccessKeyID: "id",
			SecretAccessKey: "secret"}, silent.Logger()))(t)
		says.Equal(t, s.client.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenSupported,
			want, "%s: checksums", endpoint)
		t.Run("by the SDK's setting", func(t *testing.T) {
			for name, value := range map[string]string{"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "",
				"AWS_DEFAULT_REGION": "", "AWS_CONFIG_FILE": "/nonexistent"} {
				t.Setenv(name, value)
			}
			s := must.Get(Open(t.Context(), Config{Bucket: "bucket", AccessKeyID: "id", SecretAccessKey: "secret"},
				logrus.New()))(t)
			got := s.client.Options()
			says.True(t, (got.RequestChecksumCalculation == aws.RequestChecksumCalculationWhenSupported) == want &&
				(got.ResponseChecksumValidation == aws.ResponseChecksumValidationWhenSupported) == want &&
				got.Region == defaultRegion && s.region == defaultRegion, "%s: checksums %v, want %v; region %q",
				endpoint, got.RequestChecksumCalculation, want, got.Region)
		})
	}
}
