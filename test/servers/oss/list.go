package oss

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// listing is the answer of GetBucketV2.
type listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	MaxKeys               int
	Delimiter             string
	EncodingType          string
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listed
	CommonPrefixes        []folder
}

type listed struct {
	Key          string
	LastModified string
	ETag         string
	Type         string
	Size         int64
}

type folder struct{ Prefix string }

// list gives a page: keys and folders after start-after, or after what the continuation token says.
func (s *Server) list(w http.ResponseWriter, bucket string, query url.Values) error {
	objects, err := s.bucket(bucket)
	if err != nil {
		return err
	}
	most := 100
	if given := query.Get("max-keys"); given != "" {
		if most, err = strconv.Atoi(given); err != nil || most < 1 || most > 1000 {
			return failure{http.StatusBadRequest, "InvalidArgument", "max-keys must be between 1 and 1000"}
		}
	}
	encode := func(name string) string { return name }
	if query.Get("encoding-type") == "url" {
		encode = url.QueryEscape
	}
	prefix, delimiter, after := query.Get("prefix"), query.Get("delimiter"), query.Get("start-after")
	if token := query.Get("continuation-token"); token != "" {
		after = token
	}
	answer := listing{Name: bucket, Prefix: encode(prefix), MaxKeys: most, Delimiter: encode(delimiter),
		EncodingType: query.Get("encoding-type")}

	s.mu.Lock()
	var keys []string
	for key := range objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	last := ""
	for _, key := range keys {
		name, isFolder := key, false
		if delimiter != "" {
			if i := strings.Index(key[len(prefix):], delimiter); i >= 0 {
				name, isFolder = key[:len(prefix)+i+len(delimiter)], true
			}
		}
		if name <= after || name == last {
			continue
		}
		if len(answer.Contents)+len(answer.CommonPrefixes) == most {
			answer.IsTruncated, answer.NextContinuationToken = true, encode(last)
			break
		}
		last = name
		if isFolder {
			answer.CommonPrefixes = append(answer.CommonPrefixes, folder{encode(name)})
			continue
		}
		o := objects[key]
		answer.Contents = append(answer.Contents, listed{Key: encode(key),
			LastModified: o.modified.Format(time.RFC3339Nano), ETag: strconv.Quote(o.etag), Type: "Normal",
			Size: o.size})
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/xml")
	return xml.NewEncoder(w).Encode(answer)
}
