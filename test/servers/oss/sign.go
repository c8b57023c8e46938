package oss

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// clockSkew is how far a request's date may be off.
const clockSkew = 15 * time.Minute

// authenticate checks a request's signature.
func (s *Server) authenticate(r *http.Request, bucket, key string) error {
	given := r.Header.Get("Authorization")
	date, err := http.ParseTime(r.Header.Get("Date"))
	if err != nil || time.Since(date).Abs() > clockSkew {
		return failure{http.StatusForbidden, "RequestTimeTooSkewed", "the request's date"}
	}
	want := "OSS " + s.KeyID + ":" + s.signV1(r, bucket, key)
	if strings.HasPrefix(given, "OSS4-HMAC-SHA256 ") {
		scope := date.Format("20060102") + "/" + s.Region + "/oss/aliyun_v4_request"
		want = "OSS4-HMAC-SHA256 Credential=" + s.KeyID + "/" + scope + ",Signature=" + s.signV4(r, bucket, key, scope)
	}
	if !hmac.Equal([]byte(given), []byte(want)) {
		return failure{http.StatusForbidden, "SignatureDoesNotMatch", "the signature we calculated is another"}
	}
	return nil
}

// signedParams are the query parameters that are part of what V1 signs, of those that this server knows.
var signedParams = []string{"continuation-token", "partNumber", "uploadId", "uploads"}

// signV1 is the signature in headers of the older kind.
func (s *Server) signV1(r *http.Request, bucket, key string) string {
	resource := "/" + bucket + "/" + key
	separator := "?"
	query := r.URL.Query()
	for _, name := range signedParams {
		if !query.Has(name) {
			continue
		}
		resource += separator + name
		if value := query.Get(name); value != "" {
			resource += "=" + value
		}
		separator = "&"
	}
	text := r.Method + "\n" + r.Header.Get("Content-Md5") + "\n" + r.Header.Get("Content-Type") + "\n" +
		r.Header.Get("Date") + "\n" + ossHeaders(r.Header, false) + resource
	mac := hmac.New(sha1.New, []byte(s.Secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// ossHeaders lists the headers that are signed, a line each.
func ossHeaders(header http.Header, content bool) string {
	var names []string
	for name := range header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-oss-") || (content && (name == "content-type" || name == "content-md5")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var lines strings.Builder
	for _, name := range names {
		lines.WriteString(name + ":" + strings.TrimSpace(header.Get(name)) + "\n")
	}
	return lines.String()
}

// signV4 is the signature of the newer kind.
func (s *Server) signV4(r *http.Request, bucket, key, scope string) string {
	var params []string
	for name, values := range r.URL.Query() {
		param := escape(name)
		if values[0] != "" {
			param += "=" + escape(values[0])
		}
		params = append(params, param)
	}
	slices.Sort(params)
	resource := "/" + bucket + "/" + strings.ReplaceAll(escape(key), "%2F", "/")
	request := r.Method + "\n" + resource + "\n" + strings.Join(params, "&") + "\n" + ossHeaders(r.Header, true) +
		"\n\n" + r.Header.Get("X-Oss-Content-Sha256")
	hashed := sha256.Sum256([]byte(request))
	text := "OSS4-HMAC-SHA256\n" + r.Header.Get("Date") + "\n" + scope + "\n" + hex.EncodeToString(hashed[:])
	signature := []byte("aliyun_v4" + s.Secret)
	for _, part := range append(strings.Split(scope, "/"), text) {
		mac := hmac.New(sha256.New, signature)
		mac.Write([]byte(part))
		signature = mac.Sum(nil)
	}
	return hex.EncodeToString(signature)
}

func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
