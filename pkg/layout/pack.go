package layout

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A pack holds what is known of sessions that ended, those of a day together. Packs are derived and lie where only the
// history server needs the right to write: no cluster's name and namespace without a "_" is called "packs".

const (
	dayFormat  = time.DateOnly
	packDigits = 6
)

// PacksPrefix is what the keys of all packs start with.
func PacksPrefix(root string) string { return root + "/index/packs/" }

// ExplainingKey is the lease of the server that finds out how ended sessions ended. It lies beside the packs because
// servers may also delete there.
func ExplainingKey(root string) string { return PacksPrefix(root) + "explaining" }

// PackDayPrefix is what the keys of a day's packs start with. The folder has the form that readers of Parquet know as
// Hive partitions.
func PackDayPrefix(root string, day time.Time) string {
	return PacksPrefix(root) + "day=" + day.UTC().Format(dayFormat) + "/"
}

// PackKey is the n-th pack of a day.
func PackKey(root string, day time.Time, n int) string {
	return fmt.Sprintf("%s%0*d.parquet", PackDayPrefix(root, day), packDigits, n)
}

// ParsePack reads the key of a pack.
func ParsePack(root, key string) (day time.Time, n int, err error) {
	folder, name, _ := strings.Cut(strings.TrimPrefix(key, PacksPrefix(root)), "/")
	day, dayErr := time.Parse(dayFormat, strings.TrimPrefix(folder, "day="))
	n, numberErr := strconv.Atoi(strings.TrimSuffix(name, ".parquet"))
	if dayErr != nil || numberErr != nil || n < 1 || PackKey(root, day, n) != key {
		return time.Time{}, 0, fmt.Errorf("%w: %.300q", ErrForeign, key)
	}
	return day, n, nil
}

// NamedStart reads the start from a session's name: session_{date}_{time}_{µs}_{pid}, in the head's local time, which
// is UTC in containers.
func NamedStart(sessionName string) (time.Time, bool) { return NamedStartIn(sessionName, time.UTC) }

// NamedStartIn is NamedStart for a head whose zone is known.
func NamedStartIn(sessionName string, zone *time.Location) (time.Time, bool) {
	const form = "2006-01-02_15-04-05"
	rest := strings.TrimPrefix(sessionName, "session_")
	if len(rest) < len(form) {
		return time.Time{}, false
	}
	t, err := time.ParseInLocation(form, rest[:len(form)], zone)
	return t, err == nil
}

// MaxZone is how far local times are from UTC, and more.
const MaxZone = 15 * time.Hour

// InZone moves the time of NamedStart by whole steps, which are by how much zones differ, to the last one that is not
// after a time soon after the start. It returns it as it is if no zone is so far from UTC.
func InZone(named, soonAfter time.Time, step time.Duration) time.Time {
	off := soonAfter.Sub(named)
	if off.Abs() > MaxZone {
		return named
	}
	return named.Add(off - (off%step+step)%step)
}

// IsSession says whether Ray gives sessions such a name: session_{date}_{time}_{…}. Other folders beside them, such as
// session_latest, are none.
func IsSession(name string) bool {
	start, ok := NamedStart(name)
	return ok && CheckSessionName(name) == nil && strings.HasPrefix(name, start.Format("session_2006-01-02_15-04-05_"))
}

// PackDay returns the day of the packs that a session belongs to. It comes from the session's name, because a key must
// not depend on what is learned later. Names without a day belong to 1970-01-01.
func PackDay(s Session) time.Time {
	t, ok := NamedStart(s.Name)
	if !ok || t.Year() < 1970 || t.Year() > 9999 {
		return time.Unix(0, 0).UTC()
	}
	return t.Truncate(24 * time.Hour)
}
