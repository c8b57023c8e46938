package layout

import (
	"fmt"
	"strings"
	"time"
)

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
