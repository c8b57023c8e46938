package layout

import (
	"strings"
	"testing"
	"time"
)

// Sessions of equal names in two Kubernetes clusters have no key in common, and each key leads back to its session.
func TestNamespacesOfKubernetesClusters(t *testing.T) {
	const name = "session_2026-11-20_23-19-45_581717_1"
	start := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	seen := map[string]string{}
	for _, cluster := range []string{"", "prod-eu", "prod-us", "eu"} {
		full := JoinNamespace("team-a", cluster)
		if ns, kc := SplitNamespace(full); ns != "team-a" || kc != cluster {
			t.Errorf("%s is split into %q and %q", full, ns, kc)
		}
		for _, s := range []Session{
			{Namespace: full, Cluster: "lab", Name: name},
			{Version: V17, Namespace: full, Cluster: "lab", OwnerKind: "rayjob", OwnerName: "train", Name: name},
		} {
			if got, err := ParseMarker("log", MarkerKey("log", s)); err != nil || got != s {
				t.Errorf("the marker of %+v is read as %+v: %v", s, got, err)
			}
			if got, _, err := ParseNote("log", NoteVersionKey("log", s, 3)); err != nil || got != s {
				t.Errorf("the note on %+v is read as one on %+v: %v", s, got, err)
			}
			keys := []string{Prefix("log", s), MarkerKey("log", s), IndexPrefix("log", s), NoteKey("log", s),
				WebhooksPrefix("log", s)}
			if s.Version == V16 {
				if got, err := ParseRecent("log", RecentKey("log", s, start)); err != nil || got != s {
					t.Errorf("the recent marker of %+v is read as %+v: %v", s, got, err)
				}
				keys = append(keys, RecentKey("log", s, start), ClusterMarkers("log", s.Namespace, s.Cluster))
			}
			for _, key := range keys {
				if other := seen[key]; other != "" {
					t.Errorf("%s is a key of %s and of %s", key, other, s)
				}
				seen[key] = s.String()
			}
		}
	}
}

func TestNamespacesWithoutKubernetesCluster(t *testing.T) {
	for _, full := range []string{"team-a", "", ".", "team-a.", ".prod-eu"} {
		if ns, kc := SplitNamespace(full); ns != full || kc != "" {
			t.Errorf("%q is split into %q and %q", full, ns, kc)
		}
	}
}

func TestCheckKubernetesCluster(t *testing.T) {
	for _, name := range []string{"a", "prod-eu", "1", strings.Repeat("x", 63)} {
		if err := CheckKubernetesCluster(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", "-a", "a-", "Prod", "a.b", "a_b", "a/b", "a b", "ä", "*",
		strings.Repeat("x", 64)} {
		if CheckKubernetesCluster(name) == nil {
			t.Errorf("%q is allowed", name)
		}
	}
}
