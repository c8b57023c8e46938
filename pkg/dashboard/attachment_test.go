package dashboard

import (
	"mime"
	"strings"
	"testing"
)

func TestAttachment(t *testing.T) {
	for name, want := range map[string]string{
		"raylet.out": "raylet.out", "": "file.txt", "..": "file.txt", "../../etc/passwd": "_._.._etc_passwd",
		".bashrc":               "_bashrc",
		`a"; filename=evil.exe`: "a_; filename=evil.exe", "a\r\nSet-Cookie: x": "a__Set-Cookie: x", `C:\x`: "C:_x",
		"Überblick 1.log": "Überblick 1.log",
		"txt.\u202eexe":   "txt._exe", "a\xffb": "a_b", "\u0085x": "_x",
	} {
		kind, fields, err := mime.ParseMediaType(Attachment(name))
		if err != nil || kind != "attachment" || fields["filename"] != want {
			t.Errorf("%q: %s: %q %v", name, Attachment(name), fields["filename"], err)
		}
	}
	if got := Attachment(strings.Repeat("ü", 500) + ".log"); len(got) > 1000 || !strings.HasSuffix(got, ".log") {
		t.Errorf("a long name: %s", got)
	}
}

func FuzzAttachment(f *testing.F) {
	f.Add("raylet.out")
	f.Add("../\"\r\n")
	f.Add("@Ь")
	f.Fuzz(func(t *testing.T, name string) {
		header := Attachment(name)
		if strings.ContainsFunc(header, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			t.Errorf("%q: %q", name, header)
		}
		if _, fields, err := mime.ParseMediaType(header); err != nil || fields["filename"] == "" ||
			strings.ContainsAny(fields["filename"], `/\`) {
			t.Errorf("%q: %q: %v", name, header, err)
		}
	})
}
