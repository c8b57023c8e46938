package s3

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/blobtest"
	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/internal/testkit/silent"
)

// TestSentHeaders: what a policy demands of those who write is signed and sent with each new object, and not with other
// requests: S3 refuses a download that names the object's encryption. Who pays is said with all.
func TestSentHeaders(t *testing.T) {
	want := map[string]string{encryption: "aws:kms", encryptionKey: "arn:aws:kms:eu-west-1:1:key/2",
		"x-amz-acl": "bucket-owner-full-control"}
	requests := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		makes := r.Method == http.MethodPut && !r.URL.Query().Has("partNumber") || r.URL.Query().Has("uploads")
		for name, value := range want {
			got := r.Header.Get(name)
			says.True(t, makes == (got == value) && (makes || got == ""), "%s %s: %s is %q", r.Method, r.URL, name, got)
		}
		if signed := r.Header.Get("Authorization"); r.Header.Get(requesterPays) != "requester" ||
			!strings.Contains(signed, requesterPays) || makes != strings.Contains(signed, encryptionKey) {
			t.Errorf("%s %s: %v", r.Method, r.URL, r.Header)
		}
		w.Header().Set("ETag", `"1"`)
		switch {
		case r.URL.Query().Has("uploads"):
			_, _ = io.WriteString(w, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")
		case r.Method == http.MethodPost:
			_, _ = io.WriteString(w, `<CompleteMultipartUploadResult><ETag>"2"</ETag></CompleteMultipartUploadResult>`)
		case r.URL.Query().Has("list-type"):
			_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		case r.Method == http.MethodHead:
			w.Header().Set("Content-Length", "7")
			w.Header().Set("Last-Modified", "Fri, 20 Nov 2026 23:19:45 GMT")
		}
	}))
	defer web.Close()
	s := must.Get(Open(t.Context(), Config{Bucket: "bucket", Endpoint: web.URL, PathStyle: true, AccessKeyID: "id",
		SecretAccessKey: "hush", Headers: "x-amz-acl=bucket-owner-full-control, X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id=" +
			"arn:aws:kms:eu-west-1:1:key/2,x-amz-request-payer=requester"}, silent.Logger()))(t)
	must.OK(t, s.Put(t.Context(), "key", strings.NewReader("content")))
	must.OK(t, s.uploadParts(t.Context(), "key", strings.NewReader("content"), 7, false))
	must.OK(t, must.Get(s.Get(t.Context(), "key", 0, -1))(t).Close())
	must.Get(s.Stat(t.Context(), "key"))(t)
	must.OK(t, blobtest.Listed(t, s))
	must.OK(t, s.Delete(t.Context(), "key"))
	says.Equal(t, requests, 8, "requests")
}
