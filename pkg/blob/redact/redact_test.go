package redact

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/storetest"
	"github.com/rayhistory/historyserver/pkg/blob"
)

func TestContract(t *testing.T) {
	blobtest.Contract{Many: 200, Big: 8 << 20, Open: func(t testing.TB) blob.Store {
		s := storetest.New()
		return New("hush-hush").Store(s)
	}}.Run(t)
}

// TestSecretsByTheirForm: what SDKs and servers are known to say, with HUSH where a secret is; all else stays.
func TestSecretsByTheirForm(t *testing.T) {
	for _, text := range []string{
		`Get "https://a.blob.core.windows.net/c?comp=list&sig=HUSH&sp=cl&sv=2024-11-04": dial tcp: refused`,
		`Put "https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=HUSH&X-Amz-Date=20261122T000000Z&X-Amz-Security-Token=HUSH&X-Amz-Signature=HUSH": EOF`,
		`Get "https://b.oss-cn-hangzhou.aliyuncs.com/k?OSSAccessKeyId=HUSH&Expires=1&Signature=HUSH&security-token=HUSH": EOF`,
		`Put "https://storage.googleapis.com/upload?uploadType=resumable&upload_id=HUSH": EOF`,
		`DefaultEndpointsProtocol=https;AccountName=a;AccountKey=HUSH;EndpointSuffix=core.windows.net is not one`,
		`BlobEndpoint=https://a;SharedAccessSignature=HUSH`,
		`map[Authorization:[HUSH] Date:[now]]`,
		`Authorization: HUSH`,
		`"access_token": "HUSH", "expires_in": 3599`,
		`{\"refresh_token\":\"HUSH\",\"scope\":\"all\"}`,
		`<Error><Code>X</Code><SecurityToken>HUSH</SecurityToken></Error>`,
		`assertion=HUSH&grant_type=jwt`,
	} {
		got := New().Text(strings.ReplaceAll(text, "HUSH", "c2VjcmV0/LW9m+LXRoZQ=="))
		want := strings.ReplaceAll(text, "HUSH", instead)
		says.True(t, got == want, "got  %s\nwant %s", got, want)
	}
	says.Equal(t, New().Text("proxyconnect http://user:hush@proxy:3128 refused"),
		"proxyconnect http://REDACTED@proxy:3128 refused", "an account in a URL")
	const key = `open {"private_key": "-----BEGIN PRIVATE KEY-----\nHUSH\n-----END PRIVATE KEY-----\n"}: no such file`
	for _, text := range []string{key, strings.ReplaceAll(key, `\n`, "\n"), key[:60]} {
		if got := New().Text(text); strings.Contains(got, "HUSH") || !strings.HasPrefix(got, `open {"private_key": "REDACTED`) {
			t.Errorf("a key in place of a file: %s", got)
		}
	}
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
	says.Equal(t, New().Text("token "+jwt+" refused"), "token "+instead+" refused", "a token of the web")
	for _, text := range []string{
		"permission denied: grant s3:ListBucket on bucket history: api error SignatureDoesNotMatch: The request signature we calculated does not match",
		"get log/lab_default/session_1/logs/0a/token.log: file does not exist",
		"no credentials: set --oss-access-key-id and --oss-access-key-secret, or enable RRSA",
		"https://minio:9000/bucket/key?list-type=2&prefix=log%2F",
	} {
		says.Equal(t, New().Text(text), text, "changed without need")
	}
}

func TestKnownSecrets(t *testing.T) {
	r := New("a+b/c==", "a+b/", "", "x")
	says.Equal(t, r.Text("said a+b/c== and a%2Bb%2Fc%3D%3D, x"), "said REDACTED and REDACTED, x")
	err := r.Error(fmt.Errorf("get a+b/c==: %w", os.ErrNotExist))
	if !errors.Is(err, os.ErrNotExist) || fmt.Sprintf("%v %+v %s", fmt.Errorf("list: %w", err), err,
		err) != strings.TrimSpace(fmt.Sprintf("list: %[1]s %[1]s %[1]s", "get REDACTED: file does not exist")) {
		t.Errorf("%+v", err)
	}
	says.OK(t, r.Error(nil), "no error became one")
}
