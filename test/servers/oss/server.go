// Package oss is a server that speaks as much of Alibaba Cloud OSS's protocol as a storage driver needs, written from
// the service's API reference: objects with conditions, ranges and CRC64 checksums, listings (GetBucketV2), multipart
// uploads with part copies, and both signatures (V1 and V4). Alibaba Cloud has no emulator. Objects lie on disk, each
// written whole or not at all.
package oss

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is the service with all of its buckets.
type Server struct {
	// KeyID and Secret are the one account's.
	KeyID, Secret string
	// Region is what V4 signatures must name.
	Region string
	// Versioned buckets ignore x-oss-forbid-overwrite, as the reference warns.
	Versioned bool

	dir     string
	mu      sync.Mutex
	buckets map[string]map[string]*object
	uploads map[string]*upload
	files   int
}

// object is a stored object or part.
type object struct {
	file     string
	size     int64
	etag     string // without quotes
	crc      uint64
	modified time.Time
	meta     http.Header // x-oss-meta-…
}

// upload is a multipart upload under way.
type upload struct {
	bucket, key string
	meta        http.Header
	parts       map[int]*object
}

// NewServer gives a server that keeps its objects in dir.
func NewServer(dir, keyID, secret, region string) *Server {
	return &Server{KeyID: keyID, Secret: secret, Region: region, dir: dir, buckets: map[string]map[string]*object{},
		uploads: map[string]*upload{}}
}

// failure is an answer that is an error.
type failure struct {
	status        int
	code, message string
}

func (f failure) Error() string { return f.code + ": " + f.message }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Oss-Request-Id", "test")
	if err := s.serve(w, r); err != nil {
		f, ok := err.(failure)
		if !ok {
			f = failure{http.StatusInternalServerError, "InternalError", err.Error()}
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(f.status)
		if r.Method != http.MethodHead {
			_ = xml.NewEncoder(w).Encode(struct {
				XMLName                  xml.Name `xml:"Error"`
				Code, Message, RequestId string
			}{Code: f.code, Message: f.message, RequestId: "test"})
		}
	}
}

// serve takes requests with the bucket in the path, as the SDK sends them to an IP address.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	key, err := url.PathUnescape(key)
	if err != nil {
		return failure{http.StatusBadRequest, "InvalidURI", err.Error()}
	}
	if err := s.authenticate(r, bucket, key); err != nil {
		return err
	}
	query := r.URL.Query()
	if key == "" {
		if r.Method == http.MethodPut {
			return s.makeBucket(bucket)
		}
		if r.Method == http.MethodGet && query.Get("list-type") == "2" {
			return s.list(w, bucket, query)
		}
		return failure{http.StatusNotImplemented, "NotImplemented", r.Method + " of a bucket"}
	}
	switch {
	case query.Has("uploads") && r.Method == http.MethodPost:
		return s.initiate(w, r, bucket, key)
	case query.Has("uploadId"):
		return s.serveUpload(w, r, bucket, key, query)
	case r.Method == http.MethodPut:
		return s.put(w, r, bucket, key)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return s.get(w, r, bucket, key)
	case r.Method == http.MethodDelete:
		if _, err := s.bucket(bucket); err != nil {
			return err
		}
		s.replace(bucket, key, nil)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return failure{http.StatusNotImplemented, "NotImplemented", r.Method + " of an object"}
}

func (s *Server) makeBucket(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[name] != nil {
		return failure{http.StatusConflict, "BucketAlreadyExists", "the bucket exists"}
	}
	s.buckets[name] = map[string]*object{}
	return nil
}

// bucket says whether a bucket exists; the map may be read under the lock only.
func (s *Server) bucket(name string) (map[string]*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[name] == nil {
		return nil, failure{http.StatusNotFound, "NoSuchBucket", "the bucket does not exist"}
	}
	return s.buckets[name], nil
}

func (s *Server) find(bucket, key string) (*object, error) {
	objects, err := s.bucket(bucket)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if objects[key] == nil {
		return nil, failure{http.StatusNotFound, "NoSuchKey", "the object does not exist"}
	}
	return objects[key], nil
}

// replace stores an object, nil for none, under a key. A file in use stays readable: it is only unlinked.
func (s *Server) replace(bucket, key string, o *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.buckets[bucket][key]
	if o == nil {
		delete(s.buckets[bucket], key)
	} else {
		s.buckets[bucket][key] = o
	}
	if old != nil {
		_ = os.Remove(old.file)
	}
}

// create is replace, but for keys that are taken when forbid is set.
func (s *Server) create(bucket, key string, o *object, forbid bool) error {
	s.mu.Lock()
	taken := s.buckets[bucket][key] != nil
	if !taken {
		s.buckets[bucket][key] = o
	}
	s.mu.Unlock()
	switch {
	case !taken:
		return nil
	case forbid && !s.Versioned:
		_ = os.Remove(o.file)
		return failure{http.StatusConflict, "FileAlreadyExists",
			"the object you specified already exists and can not be overwritten"}
	}
	s.replace(bucket, key, o)
	return nil
}

// sums computes what the service tells of a content.
type sums struct {
	md5 hash.Hash
	crc hash.Hash64
}

func newSums() sums { return sums{md5.New(), crc64.New(crc64.MakeTable(crc64.ECMA))} }

// write stores content in a new file.
func (s *Server) write(content io.Reader) (*object, error) {
	s.mu.Lock()
	s.files++
	name := filepath.Join(s.dir, strconv.Itoa(s.files))
	s.mu.Unlock()
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sums := newSums()
	size, err := io.Copy(io.MultiWriter(file, sums.md5, sums.crc), content)
	if err != nil {
		_ = os.Remove(name)
		return nil, failure{http.StatusBadRequest, "IncompleteBody", err.Error()}
	}
	return &object{file: name, size: size, etag: strings.ToUpper(hex.EncodeToString(sums.md5.Sum(nil))),
		crc: sums.crc.Sum64(), modified: time.Now().UTC()}, nil
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, bucket, key string) error {
	if _, err := s.bucket(bucket); err != nil {
		return err
	}
	o, err := s.write(r.Body)
	if err != nil {
		return err
	}
	o.meta = metaOf(r.Header)
	if err := s.create(bucket, key, o, r.Header.Get("X-Oss-Forbid-Overwrite") == "true"); err != nil {
		return err
	}
	o.describe(w.Header())
	return nil
}

func metaOf(header http.Header) http.Header {
	meta := http.Header{}
	for name, values := range header {
		if strings.HasPrefix(name, "X-Oss-Meta-") {
			meta[name] = values
		}
	}
	return meta
}

func (o *object) describe(header http.Header) {
	header.Set("ETag", strconv.Quote(o.etag))
	header.Set("X-Oss-Hash-Crc64ecma", strconv.FormatUint(o.crc, 10))
	for name, values := range o.meta {
		header[name] = values
	}
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, bucket, key string) error {
	o, err := s.find(bucket, key)
	if err != nil {
		return err
	}
	file, err := os.Open(o.file)
	if err != nil {
		return err
	}
	defer file.Close()
	o.describe(w.Header())
	w.Header().Set("Last-Modified", o.modified.Format(http.TimeFormat))
	w.Header().Set("Accept-Ranges", "bytes")
	if match := r.Header.Get("If-Match"); match != "" && strings.Trim(match, `"`) != o.etag {
		return failure{http.StatusPreconditionFailed, "PreconditionFailed", "the object is another"}
	}
	start, end, partial, valid := parseRange(r.Header.Get("Range"), o.size)
	if !valid {
		if r.Header.Get("X-Oss-Range-Behavior") == "standard" {
			return failure{http.StatusRequestedRangeNotSatisfiable, "InvalidRange",
				"the requested range is not satisfiable"}
		}
		start, end, partial = 0, o.size, false
	}
	w.Header().Set("Content-Length", strconv.FormatInt(end-start, 10))
	if partial {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, end-1, o.size))
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == http.MethodGet {
		_, _ = io.Copy(w, io.NewSectionReader(file, start, end-start))
	}
	return nil
}

// parseRange reads "bytes=1-2" and "bytes=1-" as [start, end).
func parseRange(header string, size int64) (start, end int64, partial, valid bool) {
	spec, found := strings.CutPrefix(header, "bytes=")
	if !found {
		return 0, size, false, true
	}
	from, to, _ := strings.Cut(spec, "-")
	start, err := strconv.ParseInt(from, 10, 64)
	if err != nil || start >= size {
		return 0, 0, false, false
	}
	end = size
	if to != "" {
		last, err := strconv.ParseInt(to, 10, 64)
		if err != nil || last < start {
			return 0, 0, false, false
		}
		end = min(size, last+1)
	}
	return start, end, true, true
}
