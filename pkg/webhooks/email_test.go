package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayhistory/historyserver/internal/testkit/must"
	"github.com/rayhistory/historyserver/internal/testkit/says"
)

// mailServer speaks as much SMTP as a client needs.
type mailServer struct {
	address  string
	trust    *tls.Config // for its clients
	starttls *tls.Config // nil: it has no STARTTLS
	refuse   string      // its answer to a password, if it refuses it
	endless  bool        // its first line has no end
	hangsUp  bool        // as soon as it has taken a message
	silent   func()      // called when there is a client, which gets no answer

	// What it got; to be read after stop.
	logins   []string // user and password
	messages []string
	stop     func()
}

// newMailServer starts one, changed; implicit has it speak TLS from the beginning.
func newMailServer(t *testing.T, implicit bool, change func(*mailServer)) *mailServer {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // for its certificate
	defer certified.Close()
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	s := &mailServer{trust: &tls.Config{RootCAs: roots},
		starttls: &tls.Config{Certificates: certified.TLS.Certificates}}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	s.stop = func() { _ = l.Close(); serving.Wait() }
	t.Cleanup(s.stop)
	s.address = l.Addr().String()
	if implicit {
		l = tls.NewListener(l, s.starttls)
		s.starttls = nil
	}
	if change != nil {
		change(s)
	}
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.serve(conn)
		}
	})
	return s
}

func (s *mailServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for s.endless {
		if _, err := io.WriteString(conn, "220 hush hush hush hush"); err != nil {
			return
		}
	}
	if s.silent != nil {
		s.silent()
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	text := textproto.NewConn(conn)
	say := func(line string) { _ = text.PrintfLine("%s", line) }
	say("220 hush")
	for {
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "EHLO":
			say("250-hush")
			if _, secure := conn.(*tls.Conn); s.starttls != nil && !secure {
				say("250-STARTTLS")
			}
			say("250 AUTH PLAIN")
		case "STARTTLS":
			say("220 go on")
			conn = tls.Server(conn, s.starttls)
			text = textproto.NewConn(conn)
		case "AUTH":
			login, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			s.logins = append(s.logins, string(login))
			if s.refuse != "" {
				say(s.refuse)
				continue
			}
			say("235 welcome")
		case "DATA":
			say("354 go on")
			message, _ := text.ReadDotBytes()
			s.messages = append(s.messages, string(message))
			say("250 taken")
			if s.hangsUp {
				return
			}
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

// failedJob is an event whose texts would make links.
var failedJob = &Event{ID: "5f0c", Type: JobFailed, Namespace: "ml", Cluster: "c", Outcome: "failed",
	URL: "https://h/findings", Cause: "see evil.example", Job: &JobOf{SubmissionID: "träin"}}

// TestEmailTaken: a message that the server has taken is sent, even if the connection ends without a word.
func TestEmailTaken(t *testing.T) {
	s := newMailServer(t, false, func(s *mailServer) { s.hangsUp = true })
	r := &Receiver{Name: "oncall", Format: Email, address: "smtp://" + s.address, From: "ray@example.com",
		To: []string{"a@example.com"}}
	must.OK(t, sendMail(t.Context(), time.Minute, s.trust, r, failedJob))
}

// TestEmailEnds: at its end the server waits for no answer.
func TestEmailEnds(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	s := newMailServer(t, false, func(s *mailServer) { s.silent = end })
	r := &Receiver{Name: "oncall", Format: Email, address: "smtp://" + s.address, From: "ray@example.com",
		To: []string{"a@example.com"}}
	err := sendMail(ctx, time.Minute, s.trust, r, failedJob)
	says.Error(t, err, context.Canceled.Error())
}

func TestEmail(t *testing.T) {
	for scheme, implicit := range map[string]bool{schemeStartTLS: false, schemeTLS: true, schemePlain: false} {
		s := newMailServer(t, implicit, nil)
		r := &Receiver{Name: "oncall", Format: Email, address: scheme + "://" + s.address,
			From: "Ray <ray@example.com>", To: []string{"a@example.com", "b@example.com"}}
		if scheme != schemePlain {
			r.User, r.secret = "ray", []byte("hush")
		}
		for range 2 {
			must.OK(t, sendMail(t.Context(), time.Minute, s.trust, r, failedJob))
		}
		s.stop()
		login := "\x00ray\x00hush"
		if scheme == schemePlain {
			login = ""
		}
		must.True(t, len(s.messages) == 2 && strings.Join(slices.Compact(s.logins), ";") == login,
			"%s: %d messages, logins %q", scheme, len(s.messages), s.logins)
		for _, message := range s.messages {
			m := must.Get(mail.ReadMessage(strings.NewReader(message)))(t)
			subject := must.Get((&mime.WordDecoder{}).DecodeHeader(m.Header.Get("Subject")))(t)
			body := string(must.Get(io.ReadAll(m.Body))(t))
			says.True(t, subject == "Job träin failed in ml/c" &&
				m.Header.Get("Message-ID") == "<5f0c.oncall@example.com>" &&
				strings.HasPrefix(m.Header.Get("Content-Type"), "text/plain") &&
				strings.Contains(m.Header.Get("To"), "b@example.com"), "%s: subject %q, %v", scheme, subject, m.Header)
			says.True(t, strings.Contains(body, "https://h/findings") && !strings.Contains(body, "evil.example"),
				"%s: %s", scheme, body)
		}
	}
}

// TestEmailRefused: without TLS nothing is sent, neither the password nor the message, and no error has the server's
// address or the password, or more than a part of what the server says.
func TestEmailRefused(t *testing.T) {
	login, password := asSent("\x00ray\x00hush-hush"), asSent("hush-hush")
	for what, tc := range map[string]struct {
		change func(*mailServer)
		want   string
		logins int
	}{
		"no STARTTLS":           {func(s *mailServer) { s.starttls = nil }, "STARTTLS", 0},
		"another's certificate": {func(s *mailServer) { s.trust = nil }, "certificate", 0},
		"a wrong password": {func(s *mailServer) {
			s.refuse = "535 " + strings.Repeat("x", 1000) + " hush-hush " + s.address
		}, "535", 1},
		"its login repeated":    {func(s *mailServer) { s.refuse = "500 AUTH PLAIN " + login }, "500", 1},
		"its password repeated": {func(s *mailServer) { s.refuse = "500 " + password }, "500", 1},
		"an endless line":       {func(s *mailServer) { s.endless = true }, "too long", 0},
	} {
		s := newMailServer(t, false, tc.change)
		r := &Receiver{Name: "oncall", Format: Email, address: "smtp://" + s.address, User: "ray",
			From: "ray@example.com", To: []string{"a@example.com"}, secret: []byte("hush-hush")}
		err := sendMail(t.Context(), time.Minute, s.trust, r, failedJob)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hush-hush") ||
			strings.Contains(err.Error(), login) || strings.Contains(err.Error(), password) ||
			strings.Contains(err.Error(), "127.0.0.1") || len(err.Error()) > 500 {
			t.Errorf("%s: %v", what, err)
		}
		s.stop()
		says.True(t, len(s.logins) == tc.logins && len(s.messages) == 0, "%s: logins %q, messages %q", what, s.logins,
			s.messages)
	}
}

func TestEmailSettings(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	must.OK(t, os.WriteFile(password, []byte("short\n"), 0o600))
	login := ", user: ray, secret_file: " + password
	const people = ", from: r@example.com, to: [a@example.com]"
	for settings, want := range map[string]string{
		"format: email, url: smtp://mail.example.com" + people + login:                                    "",
		"format: email, url: smtps://mail.example.com:465" + people + login:                               "",
		"format: email, url: smtp+plain://localhost:25" + people:                                          "",
		"format: email, url: smtp+plain://localhost:25" + people + login:                                  "without TLS",
		"format: email, url: SMTP+PLAIN://localhost:25" + people + login:                                  "without TLS",
		"format: email, url: https://mail.example.com" + people:                                           "smtp://",
		"format: email, url: smtp://ray@mail.example.com" + people:                                        "without a user",
		"format: email, url: smtp://mail.example.com/x" + people:                                          "smtp://",
		"format: email, url: smtp://mail.example.com" + people + ", user: ray":                            "neither",
		"format: email, url: smtp://mail.example.com, to: [a@example.com]":                                "ray@example.com",
		"format: email, url: smtp://mail.example.com, from: r@example.com":                                "1 to 20",
		`format: email, url: smtp://mail.example.com, from: r@example.com, to: ["a@example.com\nBcc: b"]`: "ray@example.com",
		"url: https://hooks.example.com" + people:                                                         "format email",
		"url: smtp://mail.example.com":                                                                    "https://",
	} {
		_, err := Parse([]byte("receivers: [{name: oncall, "+settings+"}]"), os.Getenv)
		says.True(t, (err == nil) == (want == "") && (err == nil || strings.Contains(fmt.Sprint(err), want)), "%s: %v",
			settings, err)
	}
}
