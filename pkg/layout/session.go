// Package layout maps stored things (sessions, streams, chunks, snapshots) to keys and back. It is pure: it builds and
// parses names and uses no store.
//
// It reads two layouts: V16, which KubeRay 1.6 documents and which our collector writes, and V17, KubeRay's newer one.
// docs/storage.md shows both. Parsing never trusts a name: a name that does not parse is ErrForeign; the caller skips
// and counts it.
package layout

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// DefaultRoot is the folder of a bucket that everything lies under.
const DefaultRoot = "log"

// Version says which of the two layouts a session is stored in.
type Version uint8

const (
	// V16 is `metadir/{name}_{ns}/{session}` and `{name}_{ns}/{session}/…`.
	V16 Version = iota
	// V17 is `cluster-metadata/{kind}/{ns}_[{owner}_]{name}/{session}` and
	// `cluster-history/{kind}/{ns}/[{owner}/]{name}/{session}/…`.
	V17
)

// ErrForeign is a key that is not one of the layout's.
var ErrForeign = errors.New("not a key of the layout")

// Session names one stored session: one life of the head of a RayCluster.
type Session struct {
	Version   Version
	Namespace string
	Cluster   string // name of the RayCluster
	OwnerKind string // V17 only: raycluster, rayjob or rayservice
	OwnerName string // V17 only: name of the RayJob or RayService, empty for a plain RayCluster
	Name      string // session_{date}_{time}_{µs}_{pid}
}

func (s Session) String() string { return s.Namespace + "/" + s.Cluster + "/" + s.Name }

// Path is where a history server shows the session, relative to the server's root: all links to its pages and answers
// begin with it.
func (s Session) Path() string {
	return "namespaces/" + url.PathEscape(s.Namespace) + "/clusters/" + url.PathEscape(s.Cluster) + "/sessions/" +
		url.PathEscape(s.Name) + "/"
}

// MarkerPrefixes are the prefixes under root below which the sessions' marker objects are.
func MarkerPrefixes(root string) []string {
	return []string{root + "/metadir/", root + "/cluster-metadata/"}
}

// ClusterMarkers is what the markers of a cluster's sessions in V16 start with.
func ClusterMarkers(root, namespace, cluster string) string {
	return root + "/metadir/" + cluster + "_" + namespace + "/"
}

// MarkerKey is the session's marker: an object whose key alone says that the session exists.
func MarkerKey(root string, s Session) string {
	if s.Version == V16 {
		return root + "/metadir/" + s.Cluster + "_" + s.Namespace + "/" + s.Name
	}
	name := s.Namespace + "_"
	if s.OwnerName != "" {
		name += s.OwnerName + "_"
	}
	return root + "/cluster-metadata/" + s.OwnerKind + "/" + name + s.Cluster + "/" + s.Name
}

// ParseMarker returns the session whose marker has this key, of either layout: it is the inverse of MarkerKey. The
// error wraps ErrForeign if it is no marker's key.
func ParseMarker(root, key string) (Session, error) {
	rest, ok := strings.CutPrefix(key, root+"/")
	if !ok {
		return Session{}, fmt.Errorf("%w: %.200q is not below %q", ErrForeign, key, root)
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	var s Session
	switch {
	case len(parts) == 3 && parts[0] == "metadir":
		// Neither name may hold an underscore in Kubernetes; outside of it a cluster's might, a namespace's not.
		i := strings.LastIndexByte(parts[1], '_')
		if i < 0 {
			return Session{}, fmt.Errorf("%w: %.200q", ErrForeign, key)
		}
		s = Session{Version: V16, Cluster: parts[1][:i], Namespace: parts[1][i+1:], Name: parts[2]}
	case len(parts) == 4 && parts[0] == "cluster-metadata":
		names := strings.Split(parts[2], "_")
		s = Session{Version: V17, OwnerKind: parts[1], Namespace: names[0], Cluster: names[len(names)-1],
			Name: parts[3]}
		switch len(names) {
		case 2:
		case 3:
			if s.OwnerName = names[1]; s.OwnerName == "" { // else it would be the same session as one without an owner
				return Session{}, fmt.Errorf("%w: %.200q", ErrForeign, key)
			}
		default:
			return Session{}, fmt.Errorf("%w: %.200q", ErrForeign, key)
		}
	default:
		return Session{}, fmt.Errorf("%w: %.200q", ErrForeign, key)
	}
	if err := s.Check(); err != nil {
		return Session{}, err
	}
	return s, nil
}

// Prefix is what all objects of the session but its marker start with; it ends in "/".
func Prefix(root string, s Session) string {
	if s.Version == V16 {
		return root + "/" + s.Cluster + "_" + s.Namespace + "/" + s.Name + "/"
	}
	p := root + "/cluster-history/" + s.OwnerKind + "/" + s.Namespace + "/"
	if s.OwnerName != "" {
		p += s.OwnerName + "/"
	}
	return p + s.Cluster + "/" + s.Name + "/"
}

// Check returns an error unless every name in s is safe as a segment of a key and of a path.
func (s Session) Check() error {
	if err := CheckSessionName(s.Name); err != nil {
		return err
	}
	fields := []struct{ what, name string }{{"namespace", s.Namespace}, {"cluster", s.Cluster}}
	if s.Version == V17 {
		fields = append(fields, struct{ what, name string }{"owner kind", s.OwnerKind})
		if s.OwnerName != "" {
			fields = append(fields, struct{ what, name string }{"owner", s.OwnerName})
		}
	}
	for _, f := range fields {
		if !safeSegment(f.name) {
			return fmt.Errorf("%w: %s name %.100q: want letters, digits, '.', '_' and '-', at most %d", ErrForeign,
				f.what, f.name, maxSegment)
		}
	}
	return nil
}

// CheckSessionName says whether name can be a Ray session's, and so a segment of a key.
func CheckSessionName(name string) error {
	if !strings.HasPrefix(name, "session_") || !safeSegment(name) {
		return fmt.Errorf("%w: session name %.100q: want session_ and then letters, digits, '.', '_' and '-', at "+
			"most %d", ErrForeign, name, maxSegment)
	}
	return nil
}

const maxSegment = 253 // Kubernetes' limit of a name

// safeSegment says whether a text may be a segment of a key: at most maxSegment letters, digits, "-", "_" and ".", of
// which the first is not a dot.
func safeSegment(s string) bool {
	if s == "" || len(s) > maxSegment || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// Beside its marker a session of V16 has another, by the hour that it began in: what began lately is found without
// listing all sessions.

// RecentPrefix is what the keys of all such markers start with.
func RecentPrefix(root string) string { return root + "/recent/" }

// RecentHour is what the keys of an hour's markers start with, without the "/": listed after it are those of this hour
// and all later ones.
func RecentHour(root string, hour time.Time) string {
	return RecentPrefix(root) + hour.UTC().Format(hourFormat)
}

// RecentKey is the marker of a session that began at start.
func RecentKey(root string, s Session, start time.Time) string {
	return RecentHour(root, start) + strings.TrimPrefix(MarkerKey(root, s), root+"/metadir")
}

// RecentHeadKey is the marker that a further head of a session stores when it starts, so that servers learn at once
// that the session continues.
func RecentHeadKey(root string, s Session, start time.Time) string {
	return SnapshotVersionKey(RecentKey(root, s, start), start)
}

// ParseRecent reads the key of such a marker.
func ParseRecent(root, key string) (Session, error) {
	if stream, _, _, version := ParseChunk(key); version {
		key = stream
	}
	hour, rest, ok := strings.Cut(strings.TrimPrefix(key, RecentPrefix(root)), "/")
	if _, err := time.Parse(hourFormat, hour); err != nil || !ok || !strings.HasPrefix(key, RecentPrefix(root)) {
		return Session{}, fmt.Errorf("%w: %.300q", ErrForeign, key)
	}
	return ParseMarker(root, root+"/metadir/"+rest)
}
