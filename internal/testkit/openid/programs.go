package openid

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Pending sets how often a device hears that nobody has entered its code yet.
func (p *Provider) Pending(times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = times
}

// Refuse makes devices hear an error, such as access_denied.
func (p *Provider) Refuse(with string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusal = with
}

// Forget ends all sign-ins that could be renewed.
func (p *Provider) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh = "none"
}

// describe is what the provider says about itself.
func (p *Provider) describe(w http.ResponseWriter) {
	answer(w, http.StatusOK, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/auth", "token_endpoint": p.URL + "/token",
		"device_authorization_endpoint": p.URL + "/device",
		"jwks_uri":                      p.URL + "/keys", "id_token_signing_alg_values_supported": []string{oidc.RS256},
		"scopes_supported": []string{"openid", "offline_access"},
	})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (p *Provider) device(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("client_id") != ProgramID {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "unauthorized_client"})
		return
	}
	answer(w, http.StatusOK, map[string]any{
		"device_code": "device", "user_code": "WDJB-MJHT", "verification_uri": p.URL + "/enter", "expires_in": 600,
		"interval": 1,
	})
}

// programToken gives a client without a secret an ID token, and a refresh token that is good once.
func (p *Provider) programToken(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refuse := func(why string) { answer(w, http.StatusBadRequest, map[string]any{"error": why}) }
	claims := map[string]any{"aud": ProgramID}
	switch r.FormValue("grant_type") {
	case "authorization_code":
		began := p.began[r.FormValue("code")]
		delete(p.began, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if began == nil || began.Get("redirect_uri") != r.FormValue("redirect_uri") ||
			began.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse("invalid_grant")
			return
		}
		claims["nonce"] = began.Get("nonce")
	case "urn:ietf:params:oauth:grant-type:device_code":
		if p.pending > 0 {
			p.pending--
			refuse("authorization_pending")
			return
		}
		if p.refusal != "" {
			refuse(p.refusal)
			return
		}
	case "refresh_token":
		if r.FormValue("refresh_token") != p.refresh {
			refuse("invalid_grant")
			return
		}
	default:
		refuse("unsupported_grant_type")
		return
	}
	maps.Copy(claims, p.user)
	p.refresh = rand.Text()
	answer(w, http.StatusOK, map[string]any{
		"access_token": "access", "token_type": "Bearer", "expires_in": int(time.Hour.Seconds()),
		"id_token": p.Token(claims), "refresh_token": p.refresh,
	})
}
