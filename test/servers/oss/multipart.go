package oss

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// The service's limits of parts.
const (
	minPart  = 100 << 10
	maxParts = 10_000
)

func (s *Server) initiate(w http.ResponseWriter, r *http.Request, bucket, key string) error {
	if _, err := s.bucket(bucket); err != nil {
		return err
	}
	s.mu.Lock()
	s.files++
	id := fmt.Sprintf("UPLOAD%d", s.files)
	s.uploads[id] = &upload{bucket: bucket, key: key, meta: metaOf(r.Header), parts: map[int]*object{}}
	s.mu.Unlock()
	return xml.NewEncoder(w).Encode(struct {
		XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket, Key, UploadId string
	}{Bucket: bucket, Key: key, UploadId: id})
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request, bucket, key string, query url.Values) error {
	id := query.Get("uploadId")
	s.mu.Lock()
	u := s.uploads[id]
	s.mu.Unlock()
	if u == nil || u.bucket != bucket || u.key != key {
		return failure{http.StatusNotFound, "NoSuchUpload", "the upload does not exist, or was completed or aborted"}
	}
	switch r.Method {
	case http.MethodPut:
		number, err := strconv.Atoi(query.Get("partNumber"))
		if err != nil || number < 1 || number > maxParts {
			return failure{http.StatusBadRequest, "InvalidArgument", "part number"}
		}
		return s.part(w, r, u, number)
	case http.MethodPost:
		return s.complete(w, r, id, u)
	case http.MethodDelete:
		s.forget(id)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return failure{http.StatusNotImplemented, "NotImplemented", r.Method + " of an upload"}
}

func (s *Server) part(w http.ResponseWriter, r *http.Request, u *upload, number int) error {
	content, copied, err := s.partContent(r)
	if err != nil {
		return err
	}
	defer content.Close()
	o, err := s.write(content)
	if err != nil {
		return err
	}
	s.mu.Lock()
	u.parts[number] = o
	s.mu.Unlock()
	o.describe(w.Header())
	if !copied {
		return nil
	}
	return xml.NewEncoder(w).Encode(struct {
		XMLName            xml.Name `xml:"CopyPartResult"`
		LastModified, ETag string
	}{LastModified: o.modified.Format("2006-01-02T15:04:05.000Z"), ETag: strconv.Quote(o.etag)})
}

// partContent is the request's body, or what it asks to copy.
func (s *Server) partContent(r *http.Request) (content io.ReadCloser, copied bool, err error) {
	source := r.Header.Get("X-Oss-Copy-Source")
	if source == "" {
		return r.Body, false, nil
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(source, "/"), "/")
	if key, err = url.QueryUnescape(key); err != nil {
		return nil, true, failure{http.StatusBadRequest, "InvalidArgument", "copy source"}
	}
	o, err := s.find(bucket, key)
	if err != nil {
		return nil, true, err
	}
	if match := r.Header.Get("X-Oss-Copy-Source-If-Match"); match != "" && strings.Trim(match, `"`) != o.etag {
		return nil, true, failure{http.StatusPreconditionFailed, "PreconditionFailed", "the source is another"}
	}
	start, end, _, valid := parseRange(r.Header.Get("X-Oss-Copy-Source-Range"), o.size)
	if !valid {
		return nil, true, failure{http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "of the source"}
	}
	file, err := os.Open(o.file)
	if err != nil {
		return nil, true, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(file, start, end-start), file}, true, nil
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request, id string, u *upload) error {
	var wanted struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.NewDecoder(r.Body).Decode(&wanted); err != nil {
		return failure{http.StatusBadRequest, "MalformedXML", err.Error()}
	}
	var readers []io.Reader
	etags := md5.New()
	for i, p := range wanted.Part {
		s.mu.Lock()
		part := u.parts[p.PartNumber]
		s.mu.Unlock()
		if part == nil || strings.Trim(p.ETag, `"`) != part.etag ||
			(i > 0 && p.PartNumber <= wanted.Part[i-1].PartNumber) {
			return failure{http.StatusBadRequest, "InvalidPart", fmt.Sprintf("part %d", p.PartNumber)}
		}
		if part.size < minPart && i < len(wanted.Part)-1 {
			return failure{http.StatusBadRequest, "EntityTooSmall",
				fmt.Sprintf("part %d has %d bytes", p.PartNumber, part.size)}
		}
		file, err := os.Open(part.file)
		if err != nil {
			return err
		}
		defer file.Close()
		readers = append(readers, file)
		_, _ = io.WriteString(etags, part.etag)
	}
	o, err := s.write(io.MultiReader(readers...))
	if err != nil {
		return err
	}
	// The reference says of this ETag only that it is not the content's MD5.
	o.etag = fmt.Sprintf("%s-%d", strings.ToUpper(hex.EncodeToString(etags.Sum(nil))), len(wanted.Part))
	o.meta = u.meta
	if err := s.create(u.bucket, u.key, o, r.Header.Get("X-Oss-Forbid-Overwrite") == "true"); err != nil {
		return err
	}
	s.forget(id)
	o.describe(w.Header())
	return xml.NewEncoder(w).Encode(struct {
		XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket, Key, ETag string
	}{Bucket: u.bucket, Key: u.key, ETag: strconv.Quote(o.etag)})
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.uploads[id]; u != nil {
		for _, part := range u.parts {
			_ = os.Remove(part.file)
		}
	}
	delete(s.uploads, id)
}
