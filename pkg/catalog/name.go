package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rayhistory/historyserver/internal/human"
	"github.com/rayhistory/historyserver/internal/lazyregexp"
)

// Name is how people name sessions: SESSION, or [NAMESPACE/]CLUSTER[/SESSION], where SESSION may be latest. Instead of
// a cluster's it may hold the name of the RayJob or RayService that made clusters.
type Name struct {
	Namespace, Cluster, Session string // "": any

	text string
}

// ErrName says that a text is no name, or not one of a session where one is wanted.
var ErrName = errors.New("names no session")

// nameForms is the part of an error that lists the forms that ParseName reads.
const nameForms = "a session, cluster, namespace/cluster, cluster/session or namespace/cluster/session; the session " +
	"may be latest; or the address of a page about it"

// inAddress matches the part of a page's address that names a cluster, or a session of it.
var inAddress = lazyregexp.New(`/namespaces/([^/?#]+)/clusters/([^/?#]+)(?:/sessions/([^/?#]+))?`)

// NameIn returns the name in the address of a page about a session or cluster, as people copy it, or else the text.
func NameIn(text string) string {
	if parts := inAddress().FindStringSubmatch(text); parts != nil {
		return strings.TrimSuffix(strings.Join(parts[1:], "/"), "/")
	}
	return text
}

// ParseName reads a name in one of the forms of Name, or the address of a page (NameIn). One part is a session if it
// begins with session_, otherwise a cluster; of two parts the second is a session if it begins so or is Latest,
// otherwise a cluster. An empty part, or one of dots, is refused with ErrName.
func ParseName(text string) (Name, error) {
	text = NameIn(text)
	parts := strings.Split(text, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return Name{}, fmt.Errorf("%.200q %w: want %s", text, ErrName, nameForms)
		}
	}
	isSession := func(part string) bool { return strings.HasPrefix(part, "session_") || part == Latest }
	n := Name{text: text}
	switch {
	case len(parts) == 1 && isSession(text) && text != Latest:
		n.Session = text
	case len(parts) == 1:
		n.Cluster = text
	case len(parts) == 2 && isSession(parts[1]):
		n.Cluster, n.Session = parts[0], parts[1]
	case len(parts) == 2:
		n.Namespace, n.Cluster = parts[0], parts[1]
	case len(parts) == 3:
		n.Namespace, n.Cluster, n.Session = parts[0], parts[1], parts[2]
	default:
		return Name{}, fmt.Errorf("%.200q %w: want %s", text, ErrName, nameForms)
	}
	return n, nil
}

// String is the name as it was given.
func (n Name) String() string { return n.text }

// Lookup lists the sessions that a filter selects, newest first. Callers set only Words, Namespace, Cluster and Owner
// of the filter.
type Lookup func(Filter) ([]Entry, error)

// LookupIn returns a Lookup among some entries, which are sorted newest first. Words are searched only in the names of
// sessions and owners.
func LookupIn(entries []Entry) Lookup {
	return func(f Filter) ([]Entry, error) {
		var found []Entry
		for _, e := range entries {
			if (f.Namespace == "" || f.Namespace == e.Ref.Namespace) &&
				(f.Cluster == "" || f.Cluster == e.Ref.Cluster) &&
				(f.Owner == "" || f.Owner == e.OwnerName) && !slices.ContainsFunc(f.Words, func(w string) bool {
				return !strings.Contains(strings.ToLower(e.Ref.String()+" "+e.OwnerName), strings.ToLower(w))
			}) {
				found = append(found, e)
			}
		}
		return found, nil
	}
}

// All returns the sessions that have the name, newest first: of a cluster all of them. A cluster's name may also be
// that of the RayJob or RayService that created clusters, if no cluster has it. It is an error if there are none,
// ErrNoSession, and if a name without a namespace is in several namespaces.
func (n Name) All(lookup Lookup) ([]Entry, error) {
	if n.Cluster == "" {
		found, err := lookup(Filter{Words: []string{n.Session}})
		found = slices.DeleteFunc(slices.Clone(found), func(e Entry) bool { return e.Ref.Name != n.Session })
		if err == nil && len(found) == 0 {
			err = n.notFound("")
		}
		return found, err
	}
	// The lookup is for all namespaces, so that an error can say where the cluster is.
	everywhere, err := lookup(Filter{Cluster: n.Cluster})
	if err != nil {
		return nil, err
	}
	found, place := n.inNamespace(everywhere), clusterOf
	if len(found) == 0 {
		owned, err := lookup(Filter{Owner: n.Cluster})
		if err != nil {
			return nil, err
		}
		everywhere, place = append(everywhere, owned...),
			func(e Entry) string { return e.Ref.Namespace + "/" + e.OwnerName }
		found = n.inNamespace(owned)
	}
	if places := distinctTexts(found, place); len(places) > 1 {
		return nil, fmt.Errorf("%s is in %d namespaces; name one of: %s", n.Cluster, len(places), firstNames(places))
	}
	cluster := found // all of its sessions
	switch {
	case n.Session == "":
	case IsAlias(n.Session): // such as latest
		found = found[:min(1, len(found))]
	default:
		found = slices.DeleteFunc(slices.Clone(found), func(e Entry) bool { return e.Ref.Name != n.Session })
	}
	if len(found) > 0 {
		return found, nil
	}
	if len(cluster) > 0 {
		return nil, n.notFound("; it has " + firstNames(distinctTexts(cluster, sessionOf)))
	}
	if places := distinctTexts(everywhere, clusterOf); len(places) > 0 {
		return nil, n.notFound("; stored are sessions of " + firstNames(places))
	}
	return nil, n.notFound(n.Suggestion(lookup))
}

// One returns the session that has the name: of a cluster the latest.
func (n Name) One(lookup Lookup) (Entry, error) {
	found, err := n.All(lookup)
	if err != nil {
		return Entry{}, err
	}
	if n.Cluster == "" {
		if places := distinctTexts(found, func(e Entry) string { return e.Ref.String() }); len(places) > 1 {
			return Entry{}, fmt.Errorf("%d clusters have a session of this name; name one of: %s", len(places),
				firstNames(places))
		}
	}
	return found[0], nil
}

// inNamespace returns the entries of the name's namespace; all of them if the name has none.
func (n Name) inNamespace(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Clone(entries),
		func(e Entry) bool { return n.Namespace != "" && n.Namespace != e.Ref.Namespace })
}

// notFound is the error about a name that no session has. hint follows the name in its text; "" if there is none.
func (n Name) notFound(hint string) error {
	return fmt.Errorf("%w: %s%s; `historyserver ls` lists the stored sessions", ErrNoSession, n, hint)
}

// Suggestion returns the end of an error about a name that nothing has. It says which cluster or owner has nearly the
// same spelling, or else which clusters have sessions where the name occurs elsewhere, such as in a job. It returns ""
// if there is nothing to suggest.
func (n Name) Suggestion(lookup Lookup) string {
	// In NAMESPACE/latets the namespace may be a cluster's name, and latest may be misspelled.
	if n.Namespace != "" && n.Session == "" && human.Nearest(n.Cluster, []string{Latest}) != "" {
		return human.DidYouMean(n.Namespace + "/" + Latest)
	}
	if near := n.Nearest(lookup); near != "" {
		return human.DidYouMean(near)
	}
	if places := distinctTexts(searchWords(lookup, strings.ToLower(n.Cluster)), clusterOf); len(places) > 0 {
		return "; it is found in sessions of " + firstNames(places)
	}
	return ""
}

// Nearest returns the cluster or owner whose spelling is nearest to the name's cluster. It returns "" if none is near,
// or if one has the very same name, such as an owner of another kind.
func (n Name) Nearest(lookup Lookup) string {
	// A mistyped name usually has one half right, so the candidates contain either half.
	word := strings.ToLower(n.Cluster)
	alike := append(searchWords(lookup, word[:len(word)/2]), searchWords(lookup, word[len(word)/2:])...)
	near := human.Nearest(n.Cluster, append(distinctTexts(alike, func(e Entry) string { return e.Ref.Cluster }),
		distinctTexts(alike, func(e Entry) string { return e.OwnerName })...))
	if near == n.Cluster {
		return ""
	}
	return near
}

// searchWords returns the sessions in which all words of a text are found; none if text is empty or if lookup fails,
// because the result is only used for suggestions.
func searchWords(lookup Lookup, text string) []Entry {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	found, _ := lookup(Filter{Words: words})
	return found
}

func sessionOf(e Entry) string { return e.Ref.Name }

func clusterOf(e Entry) string { return e.Ref.Namespace + "/" + e.Ref.Cluster }

// distinctTexts returns text of each entry, in the order of entries, each value once.
func distinctTexts(entries []Entry, text func(Entry) string) (all []string) {
	seen := map[string]bool{}
	for _, e := range entries {
		if t := text(e); !seen[t] {
			seen[t] = true
			all = append(all, t)
		}
	}
	return all
}

// firstNames returns a text with the first ten names, separated by commas, and how many more there are.
func firstNames(all []string) string {
	const limit = 10
	text := strings.Join(all[:min(limit, len(all))], ", ")
	if len(all) > limit {
		text += fmt.Sprintf(" and %d more", len(all)-limit)
	}
	return text
}

// SelectSessions is Select, but a cluster's name must say which of its sessions is meant.
func SelectSessions(lookup Lookup, names []string) ([]Entry, error) {
	for _, text := range names {
		if n, err := ParseName(text); err == nil && n.Session == "" {
			return nil, fmt.Errorf("%s %w but a cluster: name one of its sessions, such as %s/%s", text, ErrName, text,
				Latest)
		}
	}
	return Select(lookup, names)
}

// Select returns the sessions that have one of the names, newest first; all of them if there are no names. A cluster's
// name is that of all of its sessions.
func Select(lookup Lookup, names []string) ([]Entry, error) {
	if len(names) == 0 {
		return lookup(Filter{})
	}
	var all []Entry
	for _, text := range names {
		n, err := ParseName(text)
		if err != nil {
			return nil, err
		}
		found, err := n.All(lookup)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b Entry) int {
		return cmp.Or(b.Start.Compare(a.Start), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
	return slices.CompactFunc(all, func(a, b Entry) bool { return a.Ref == b.Ref }), nil
}
