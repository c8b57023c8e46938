package findings

import (
	"fmt"
	"testing"

	"github.com/rayhistory/historyserver/internal/testkit/says"
	"github.com/rayhistory/historyserver/pkg/findings/output"
)

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
		says.Equal(t, (&finding{}).mayTellOfFailure(lost, c.text, c.owner), c.may, "%s %q", c.text, c.owner)
	}
}

// TestDeploymentBehindException: of two deployments of an application, the one that an exception names is behind it.
func TestDeploymentBehindException(t *testing.T) {
	const gone = "DeploymentUnavailableError: Deployment(name='%s', app='shop') is unavailable because it failed to deploy."
	other := &finding{Finding: Finding{Kind: Serve, Entities: []Entity{{Type: "deployment", ID: "shop#Tax", Name: "Tax"}}}}
	for name, may := range map[string]bool{"Tax": true, "Price": false, "Taxes": false} {
		says.Equal(t, (&finding{}).mayTellOfFailure(other, fmt.Sprintf(gone, name), ""), may, "%s: want %t", name, may)
	}
	served := &finding{raised: output.Exception{Type: "RayServeException"}}
	for text, may := range map[string]bool{"application 'shop' is gone": true, "application 'pay' is gone": false} {
		says.Equal(t, served.mayTellOfFailure(other, text, ""), may, "%s: want %t", text, may)
	}
}

// TestNamesApplication: an application of Serve is named by the path of a request, not by that of a file.
func TestNamesApplication(t *testing.T) {
	for text, names := range map[string]bool{
		"HTTP Error 500: http://10.0.0.7:8000/orders":             true,
		"for url: 'https://shop.example/v1/orders/17?a=b'.":       true,
		"read 7 of 8 files of s3://lake/orders/day=1":             false,
		"wrote file:///data/orders/a.csv":                         false,
		"http://orders/health gave 200":                           false,
		"http://10.0.0.7:8000/reorders and /orders":               false,
		"RayServeException: application 'orders' is not deployed": true,
	} {
		says.Equal(t, namesApplication(text, "orders"), names, "%s: want %t", text, names)
	}
	for text, names := range map[string]bool{
		"HTTP Error 500: http://10.0.0.7:8000/api":                                 true,
		"for url: http://10.0.0.7:8000/api/predict":                                true,
		"for url: http://10.0.0.7:8000/api/v0/orders":                              true,
		"for url: http://ray.example/api/v0/actors?limit=100":                      false,
		"Max retries exceeded with url: http://10.0.0.7:8265/api/jobs/":            false,
		"404 Client Error for url: http://ray.example/api/serve/applications/.":    false,
		"Failed to connect to Ray at address: http://127.0.0.1:8265/api/version, ": false,
	} {
		says.Equal(t, namesApplication(text, "api"), names, "%s: want %t", text, names)
	}
}
