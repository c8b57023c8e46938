// Package openid runs a real OpenID provider for tests, of the certified library zitadel/oidc: with its own sign-in
// page, codes and tokens.
package openid

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

// Password is everybody's.
const Password = "verysecure"

// Secret is every client's.
const Secret = "client's secret"

// Start starts a provider that knows users by name, each with groups, and clients by ID, each with the address it has
// browsers sent back to. It ends with the test.
func Start(t *testing.T, users map[string][]string, clients map[string]string) (issuer string) {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	known := map[string]*storage.Client{}
	for id, redirect := range clients {
		known[id] = storage.WebClient(id, Secret, redirect)
	}
	people := directory(users)
	server.Config.Handler = exampleop.SetupServer(server.URL,
		grouped{storage.NewStorageWithClients(people, known), people}, slog.New(slog.DiscardHandler), false)
	return server.URL
}

// directory is who there is: groups by name.
type directory map[string][]string

// GetUserByID implements storage.UserStore; IDs are names.
func (d directory) GetUserByID(id string) *storage.User {
	if _, known := d[id]; !known {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: Password, Email: id + "@example.com", EmailVerified: true}
}

// GetUserByUsername implements storage.UserStore.
func (d directory) GetUserByUsername(name string) *storage.User { return d.GetUserByID(name) }

// ExampleClientID implements storage.UserStore.
func (d directory) ExampleClientID() string { return "" }

// grouped has ID tokens tell addresses and groups, as providers of companies do.
type grouped struct {
	*storage.Storage
	people directory
}

// SetUserinfoFromRequest implements op.CanSetUserinfoFromRequest.
func (g grouped) SetUserinfoFromRequest(ctx context.Context, info *oidc.UserInfo, request op.IDTokenRequest,
	scopes []string) error {
	if err := g.Storage.SetUserinfoFromRequest(ctx, info, request,
		slices.Concat(scopes, []string{oidc.ScopeEmail})); err != nil {
		return err
	}
	info.AppendClaims("groups", g.people[request.GetSubject()])
	return nil
}
