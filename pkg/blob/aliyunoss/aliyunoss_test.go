package aliyunoss

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/sirupsen/logrus"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
	"github.com/rayhistory/historyserver/pkg/blob"
	"github.com/rayhistory/historyserver/pkg/blob/internal/remote"
)

func TestEndpoint(t *testing.T) {
	for _, test := range []struct {
		config           Config
		endpoint, region string
		err              string
	}{
		{Config{Region: "cn-hangzhou"}, "https://oss-cn-hangzhou.aliyuncs.com", "cn-hangzhou", ""},
		{Config{Region: "cn-hangzhou", Internal: true}, "https://oss-cn-hangzhou-internal.aliyuncs.com", "cn-hangzhou",
			""},
		{Config{Endpoint: "oss-cn-hangzhou-internal.aliyuncs.com"}, "https://oss-cn-hangzhou-internal.aliyuncs.com",
			"cn-hangzhou", ""},
		{Config{Endpoint: "http://oss-eu-central-1.aliyuncs.com"}, "http://oss-eu-central-1.aliyuncs.com",
			"eu-central-1", ""},
		{Config{Endpoint: "https://oss-accelerate.aliyuncs.com"}, "https://oss-accelerate.aliyuncs.com", "", ""},
		{Config{Endpoint: "oss-accelerate-overseas.aliyuncs.com"}, "https://oss-accelerate-overseas.aliyuncs.com", "",
			""},
		{Config{Endpoint: "oss-accelerate.aliyuncs.com", Region: "cn-beijing"}, "https://oss-accelerate.aliyuncs.com",
			"cn-beijing", ""},
		{Config{Endpoint: "oss-accelerate-overseas.aliyuncs.com", Region: "ap-southeast-1"},
			"https://oss-accelerate-overseas.aliyuncs.com", "ap-southeast-1", ""},
		{Config{Endpoint: "http://127.0.0.1:80"}, "http://127.0.0.1:80", "", ""},
		{Config{Endpoint: "http://127.0.0.1:80", Region: "r"}, "http://127.0.0.1:80", "r", ""},
		{Config{}, "", "", "--oss-endpoint"},
		{Config{Endpoint: "ftp://x"}, "", "", "--oss-endpoint"},
		{Config{Endpoint: "oss-cn-hangzhou.aliyuncs.com", Internal: true}, "", "", "--oss-internal"},
		{Config{Endpoint: "oss-cn-hangzhou.aliyuncs.com", Region: "cn-beijing"}, "", "", "--oss-region"},
	} {
		endpoint, region, err := test.config.endpoint()
		says.True(t, endpoint == test.endpoint && region == test.region && (err == nil) == (test.err == "") &&
			(err == nil || strings.Contains(err.Error(), test.err)), "%+v: %q, %q, %v", test.config, endpoint, region,
			err)
	}
}

func TestCredentialsAreChecked(t *testing.T) {
	for name, c := range map[string]Config{
		"none":          {},
		"half a key":    {AccessKeyID: "id"},
		"half a role":   {Role: Role{ARN: "acs:ram::1:role/r"}},
		"a bad bucket":  {Bucket: "B", AccessKeyID: "id", AccessKeySecret: "hush"},
		"without a key": {AccessKeySecret: "hush"},
	} {
		c.Bucket = cmp.Or(c.Bucket, "bucket")
		c.Region = "cn-hangzhou"
		_, err := Open(c, logrus.New())
		says.True(t, err != nil && !strings.Contains(err.Error(), "hush"), "%s: %v", name, err)
	}
}

// TestRole: a role's keys are asked for with the service account's token, kept while they are valid, and renewed before
// they expire.
func TestRole(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	must.OK(t, os.WriteFile(token, []byte("jwt\n"), 0o600))
	requests, valid, broken := 0, time.Hour, false
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if broken || r.FormValue("Action") != "AssumeRoleWithOIDC" || r.FormValue("RoleArn") != "role" ||
			r.FormValue("OIDCProviderArn") != "provider" || r.FormValue("OIDCToken") != "jwt" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"Code":"AuthenticationFail.NoPermission","Message":"no"}`)
			return
		}
		fmt.Fprintf(w, `{"Credentials":{"AccessKeyId":"id%d","AccessKeySecret":"secret","SecurityToken":"token","Expiration":%q}}`, requests, time.Now().Add(valid).UTC().Format(time.RFC3339))
	}))
	defer sts.Close()
	a := &assumed{role: Role{ARN: "role", Provider: "provider", TokenFile: token, Endpoint: sts.URL},
		client: http.DefaultClient}
	want := func(id string, asked int) {
		t.Helper()
		got, err := a.GetCredentialsE()
		says.True(t, err == nil && got.GetAccessKeyID() == id && got.GetSecurityToken() == "token" && requests == asked,
			"got %v, %v after %d requests; want %s after %d", got, err, requests, id, asked)
	}
	valid = time.Minute // to be renewed at once
	want("id1", 1)
	valid = time.Hour
	want("id2", 2)
	want("id2", 2)
	broken, a.expires = true, time.Now().Add(time.Minute)
	want("id2", 3) // still valid, though it could not be renewed
	want("id2", 3) // and not every request waits for the next attempt
	a.failed = time.Now().Add(-renewPause)
	want("id2", 4)
	a.expires = time.Now().Add(-time.Minute)
	for range 3 { // nor does every request ask after the keys have expired
		if _, err := a.GetCredentialsE(); err == nil || requests != 4 ||
			!strings.Contains(err.Error(), "AuthenticationFail.NoPermission") {
			t.Errorf("expired: %v after %d requests", err, requests)
		}
	}
	broken, a.failed = false, time.Now().Add(-renewPause)
	want("id5", 5)
}

// at is a driver whose server answers as answer does.
func at(t *testing.T, answer http.HandlerFunc) *Store {
	t.Helper()
	return must.Get(Open(Config{Endpoint: blobtest.Serve(t, answer), Bucket: "bucket", AccessKeyID: "id",
		AccessKeySecret: "hush"}, silent.Logger()))(t)
}

// TestAnswersOfProxies: what a proxy before the service refuses is told by the status alone, as its words are none of
// the service's.
func TestAnswersOfProxies(t *testing.T) {
	for status, want := range map[int]error{
		http.StatusRequestEntityTooLarge: blob.ErrTooLarge, http.StatusRequestURITooLong: blob.ErrRefused,
		http.StatusForbidden: blob.ErrPermission,
	} {
		asked := 0
		s := at(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			http.Error(w, "<html>no</html>", status)
		})
		if err := s.Create(t.Context(), "log/a", strings.NewReader("text")); !errors.Is(err, want) || asked != 1 {
			t.Errorf("status %d: %v, want %v; asked %d times", status, err, want, asked)
		}
	}
}

// TestClockOfARefusedWrite: the store's clock is in the header of its answer.
func TestClockOfARefusedWrite(t *testing.T) {
	client := &http.Client{Transport: transportFunc(func(r *http.Request) *http.Response {
		_, _ = io.Copy(io.Discard, r.Body)
		return &http.Response{StatusCode: http.StatusForbidden, Request: r,
			Header: http.Header{"Date": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}},
			Body:   io.NopCloser(strings.NewReader(`<?xml version="1.0"?><Error><Code>ServerBusy</Code></Error>`))}
	})}
	s := &Store{name: "bucket"}
	s.client = must.Get(oss.New("http://127.0.0.1", "id", "secret", oss.HTTPClient(client)))(t)
	s.bucket = must.Get(s.client.Bucket("bucket"))(t)
	s.Writer = remote.NewWriter(s.put, nil, s.findKey, nil)
	says.Error(t, s.Put(t.Context(), "log/a", strings.NewReader("text")), "the clock of this machine",
		"refused by the time")
}

type transportFunc func(*http.Request) *http.Response

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestAnswersCutShort: an error of the service that is cut short is asked for again, for its status alone does not say
// what was refused.
func TestAnswersCutShort(t *testing.T) {
	const refused = `<?xml version="1.0"?><Error><Code>FileAlreadyExists</Code><Message>it exists</Message></Error>`
	asked := 0
	s := at(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(refused[:len(refused)*min(asked, 2)/2]))
	})
	says.ErrorIs(t, s.Create(t.Context(), "log/a", strings.NewReader("text")), os.ErrExist, "after %d requests", asked)
}

// TestAnswersOfOtherServers: a good status from what is not OSS, such as a proxy's page, stores nothing and is no empty
// bucket.
func TestAnswersOfOtherServers(t *testing.T) {
	blobtest.NoStore(t, at(t, blobtest.Page(blobtest.SignIn)), "--oss-endpoint")
}

// TestAdviceByCause: what to do after a refusal depends on its cause, not on its status.
func TestAdviceByCause(t *testing.T) {
	hour := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	for name, test := range map[string]struct{ code, message, more, want string }{
		"a clock": {"RequestTimeTooSkewed",
			"The difference between the request time and the current time is too large.",
			"<ServerTime>" + hour + "</ServerTime>", "ahead of the store's"},
		"a secret": {"SignatureDoesNotMatch", "The request signature we calculated does not match", "",
			"the secret does not belong to the access key"},
		"a key": {"InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records.", "",
			"the store does not know the access key"},
		"expired": {"SecurityTokenExpired", "The security token you provided has expired.", "",
			"renew the credentials"},
		"a region": {"AccessDenied",
			"The bucket you are attempting to access must be addressed using the specified endpoint.", "", "correct --oss-endpoint"},
		"KMS": {"AccessDenied", "You have no right to perform kms:Decrypt", "",
			"grant kms:Decrypt on the KMS key of bucket bucket"},
		"bills":    {"UserDisable", "UserDisable", "", "bills that are not paid"},
		"archived": {"InvalidObjectState", "The operation is not valid for the object's state", "", "restore it"},
		"a right": {"AccessDenied", "You have no right to access this object because of bucket acl.", "",
			"grant oss:ListObjects on bucket bucket"},
		"locked": {immutable, "The object is protected by WORM", "",
			"a retention policy, lock or hold of bucket bucket keeps the object"},
		"old times": {"AccessDenied", "Request has expired.", "", "compare the clock of this machine"},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/xml")
				if test.code == immutable {
					w.WriteHeader(http.StatusConflict)
				} else {
					w.WriteHeader(http.StatusForbidden)
				}
				fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s</Message>%s</Error>",
					test.code, test.message, test.more)
			})
			got := blobtest.Advice(t, blobtest.Listed(t, s))
			says.True(t, strings.Contains(got, test.want), "%q, want %q", got, test.want)
		})
	}
}

// TestThrottled: which errors ask for fewer requests.
func TestThrottled(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"a rate":     {oss.ServiceError{StatusCode: 429}, true},
		"overloaded": {oss.ServiceError{StatusCode: 503, Code: "UploadTrafficRateLimitExceeded"}, true},
		"a proxy's page": {errors.New("oss: service returned invalid response body, status = 503 Busy, RequestId = "),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&Store{}).mapError(test.err, nil, "x")
			says.True(t, errors.Is(got, blob.ErrThrottled) == test.want, "%v, want throttled: %t", got, test.want)
		})
	}
}
