package gcs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"cloud.google.com/go/compute/metadata"
	"cloud.google.com/go/storage"
	"golang.org/x/oauth2"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"
)

// authorize returns a transport that adds credentials to the requests of base: those of the configured file, or the
// application default credentials.
//
// The SDK asks once in a process's life whether there is a metadata server. On a node that was just made it may answer
// only seconds later, so if nothing else gives credentials, it is asked again here.
func (c *Config) authorize(ctx context.Context, base http.RoundTripper) (http.RoundTripper, error) {
	scope := option.WithScopes(storage.ScopeReadWrite)
	if c.CredentialsFile != "" {
		return htransport.NewTransport(ctx, base, scope,
			option.WithAuthCredentialsFile(option.ServiceAccount, c.CredentialsFile))
	}
	transport, err := htransport.NewTransport(ctx, base, scope)
	if err == nil || !strings.Contains(err.Error(), noDefault) {
		return transport, err
	}
	client := metadata.NewClient(nil)
	if !client.OnGCEWithContext(ctx) {
		return nil, err
	}
	tokens := oauth2.ReuseTokenSource(nil, machine{client})
	return htransport.NewTransport(ctx, base, option.WithTokenSource(tokens))
}

// noDefault is in the SDK's error if it found no application default credentials (cloud.google.com/go/auth/credentials,
// DetectDefault). The error has no type.
const noDefault = "could not find default credentials"

// machine gives tokens of the service account of this machine or pod.
type machine struct{ client *metadata.Client }

// tokenTime bounds the request for a token.
const tokenTime = 30 * time.Second

// Token implements oauth2.TokenSource: it asks the metadata server for a token of the machine's service account
// (cloud.google.com/compute/docs/access/authenticate-workloads#applications).
func (m machine) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), tokenTime)
	defer cancel()
	text, err := m.client.GetWithContext(ctx,
		"instance/service-accounts/default/token?scopes="+url.QueryEscape(storage.ScopeReadWrite))
	if err != nil {
		return nil, fmt.Errorf("get a token of the metadata server: %w", err)
	}
	var answer struct {
		Token   string `json:"access_token"`
		Type    string `json:"token_type"`
		Seconds int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, fmt.Errorf("read the token of the metadata server: %w", err)
	}
	if answer.Token == "" || answer.Seconds <= 0 {
		return nil, errors.New("the metadata server gave no token")
	}
	return &oauth2.Token{AccessToken: answer.Token, TokenType: answer.Type,
		Expiry: time.Now().Add(time.Duration(answer.Seconds) * time.Second)}, nil
}
