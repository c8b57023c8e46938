package access

import "slices"

// AboutPath is where programs learn how their users sign in, before they have.
const AboutPath = "/api/history/about"

// SignIn says to programs how their users sign in.
type SignIn struct {
	Mode Mode `json:"mode"`
	// Issuer is the OpenID provider and ClientID the client that programs sign in with, for --auth=oidc.
	Issuer   string   `json:"issuer,omitempty"`
	ClientID string   `json:"client_id,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
}

// SignIn says how programs' users sign in.
func (a *Access) SignIn() SignIn {
	s := SignIn{Mode: a.config.Auth}
	if c := &a.config.OIDC; a.provider != nil {
		s.Issuer, s.ClientID, s.Scopes = c.Issuer, c.programs(), c.Scopes
	}
	return s
}

// programs is the client that programs sign in with.
func (c *OIDCConfig) programs() string {
	if c.ProgramClientID != "" {
		return c.ProgramClientID
	}
	return c.ClientID
}

// audiences are the clients whose ID tokens are taken from programs.
func (c *OIDCConfig) audiences() []string {
	return slices.Concat([]string{c.ClientID, c.programs()}, c.Audiences)
}
