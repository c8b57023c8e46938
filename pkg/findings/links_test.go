package findings

import "testing"

// TestNodeBehindException: the loss of a node may be behind an exception, but not if that says that somebody ended the
// actor.
func TestNodeBehindException(t *testing.T) {
	lost := &finding{Finding: Finding{Kind: NodeDied, Entities: []Entity{{Type: "node", ID: "0a"}}}}
	for _, c := range []struct {
		text, owner string
		may         bool
	}{
		{"ActorDiedError: The actor died because its node has died.", "", true},
		{"ActorDiedError: The actor is dead because it was killed by `ray.kill`.", "", false},
		{"ActorDiedError: The actor is dead because all references to the actor were removed.", "", false},
		{"OwnerDiedError: Failed to retrieve object 7.", "0a", true},
		{"OwnerDiedError: Failed to retrieve object 7.", "0b", false},
	} {
		if may := (&finding{}).mayTellOfFailure(lost, c.text, c.owner); may != c.may {
			t.Errorf("%s %q: %t", c.text, c.owner, may)
		}
	}
}
