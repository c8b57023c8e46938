package gcs

import (
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
)

func TestConfigIsChecked(t *testing.T) {
	good := Config{Bucket: "b", Endpoint: "localhost:4443"}
	for name, test := range map[string]struct {
		change func(*Config)
		err    string
	}{
		"good":                     {func(*Config) {}, ""},
		"no bucket":                {func(c *Config) { c.Bucket = "" }, "--gcs-bucket"},
		"not a URL":                {func(c *Config) { c.Endpoint = "ftp://x" }, "--gcs-endpoint"},
		"credentials for all":      {func(c *Config) { c.CredentialsFile = "/key.json" }, "--gcs-credentials-file"},
		"no such credentials file": {func(c *Config) { c.Endpoint, c.CredentialsFile = "", "/nowhere/key.json" }, "/nowhere/key.json"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			_, err := Open(t.Context(), c, logrus.New())
			if (err == nil) != (test.err == "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got %v, want an error with %q", err, test.err)
			}
		})
	}
}

func TestEndpoint(t *testing.T) {
	for given, want := range map[string]string{
		"":                          "",
		"localhost:4443":            "http://localhost:4443/storage/v1/",
		"http://localhost:4443/":    "http://localhost:4443/storage/v1/",
		"https://gcs.example.com/x": "https://gcs.example.com/x",
	} {
		c := Config{Endpoint: given}
		got, emulator, err := c.endpoint()
		if err != nil || got != want || emulator != strings.HasPrefix(want, "http://") {
			t.Errorf("%q: %q, emulator %v, %v; want %q", given, got, emulator, err, want)
		}
	}
}
